// Package agent is an sFlow agent: an output that sends what a session captures to an sFlow
// collector, with the counters of interfaces and host.
package agent

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/sflow"
)

// DefaultHeader is how many bytes of a packet are sent where nobody says: sFlow's own default.
const DefaultHeader = 128

// holdTime is how long a sample waits for others. Flush is called four times a second at least, so
// a sample is sent within a second.
const holdTime = 250 * time.Millisecond

// Options say what to send and where.
type Options struct {
	Collector string        // HOST:PORT of UDP
	Address   netip.Addr    // the agent's; not valid = that from which datagrams go to the collector
	SubAgent  uint32        // 0 = the index of the session's first interface
	Header    int           // bytes of each packet at most; 0 = DefaultHeader
	Interval  time.Duration // between the counters of the interfaces and of the host; 0 = none are sent

	// Notice, if not nil, is told once when datagrams begin not to arrive. It is called by the
	// goroutine of the Agent's methods, and must return without waiting for anything.
	Notice func(error)
}

// An Agent is an Output that sends packets to a collector. It never waits for the network: what its
// socket does not take is not taken, and is counted. That the collector is away is no error.
//
// A packet has one flow sample: where several hooks of an interface see it, the first one makes
// it, as an entry does beside the exit. Notifications of discarded packets are made of all exits.
//
// An Agent belongs to one goroutine, except Counts, Size and Accounts.
type Agent struct {
	options   Options
	collector *collector
	counts    counts
	told      bool   // a Notice
	passed    uint64 // packets that are no Ethernet frames

	description capture.Description
	sources     []source
	sampled     map[direction]bool
	known       map[int]*dataSource // by index
	immediate   bool                // Options.Immediate of the session
	started     time.Time
	accounts    func() (capture.Accounts, error)
	looked      time.Time // when the accounts were read last

	mu    sync.Mutex       // held to change taken
	taken capture.Accounts // Captured and Bytes in datagrams that the socket took, NotTaken in others

	// Not all programs that read samples know those of discarded packets and of hosts, and some
	// find nothing behind them: sfacctd 1.7, Wireshark 4.0. So these have datagrams of their own.
	common   *line
	special  *datagram
	sequence uint32 // of datagrams

	polled  chan []polled
	numbers map[sflow.Source]uint32 // of counter samples
	stop    context.CancelFunc      // ends the goroutines; nil before Begin
	running sync.WaitGroup
}

// Open finds the collector. The caller must call Close unless the Agent has ended.
func Open(o Options) (*Agent, error) {
	o.Header = cmp.Or(o.Header, DefaultHeader)
	c, err := openCollector(o.Collector)
	if err != nil {
		return nil, err
	}
	if !o.Address.IsValid() {
		o.Address = c.local()
	}
	return &Agent{options: o, collector: c}, nil
}

// Begin starts the goroutines that look for the collector's address and read counters.
func (a *Agent) Begin(d capture.Description) error {
	a.description, a.sampled, a.known = d, make(map[direction]bool), make(map[int]*dataSource)
	a.add(d.Sources)
	a.immediate = d.Options.Immediate
	a.accounts, a.started = d.Accounts, time.Now()
	a.common, a.special = newLine(), newDatagram()
	if len(d.Sources) > 0 {
		a.options.SubAgent = cmp.Or(a.options.SubAgent, uint32(d.Sources[0].Index))
	}
	a.polled, a.numbers = make(chan []polled, 1), make(map[sflow.Source]uint32)

	var ctx context.Context
	ctx, a.stop = context.WithCancel(context.Background())
	a.running.Go(func() { a.collector.follow(ctx) })
	if a.options.Interval > 0 && d.IsLive() { // the interfaces in capture files are others
		a.running.Go(func() { poll(ctx, a.options.Interval, d.Sources, a.polled) })
	}
	return nil
}

// Write adds packets to datagrams, and sends those that are full when enough others wait behind
// them. It keeps nothing of the packets and allocates nothing.
func (a *Agent) Write(packets []capture.Packet) error {
	if more := a.description.More; more != nil {
		a.add(more(len(a.sources)))
	}
	for i := range packets {
		a.sample(&packets[i])
	}
	if a.immediate {
		a.sendBegunBefore(time.Now())
	}
	return nil
}

// Flush sends datagrams whose first sample has waited long enough, adds counters that were read,
// and turns to a new address of the collector.
func (a *Agent) Flush() error {
	a.collector.turn()
	select {
	case read := <-a.polled:
		a.addCounters(read)
	default:
	}
	now := time.Now()
	if !a.immediate {
		now = now.Add(-holdTime)
	}
	a.sendBegunBefore(now)
	return nil
}

// sendBegunBefore sends datagrams that were begun until then.
func (a *Agent) sendBegunBefore(then time.Time) {
	for d := a.common.oldest(); d.samples > 0 && !d.begun.After(then); d = a.common.oldest() {
		a.sendOldest()
	}
	if a.special.samples > 0 && !a.special.begun.After(then) {
		a.sendSpecial()
	}
}

// End sends what is left. In the account, packets in datagrams that the socket did not take are
// lost.
func (a *Agent) End(final capture.Accounts) (capture.Accounts, error) {
	a.accounts, a.looked = func() (capture.Accounts, error) { return final, nil }, time.Time{}
	a.sendBegunBefore(time.Now())
	if a.passed > 0 && a.options.Notice != nil {
		a.options.Notice(fmt.Errorf("sflow://%s: samples are of Ethernet frames: %d packets are none, and were passed over", a.options.Collector, a.passed))
	}
	return final.Delivered(a.taken), a.Close()
}

// Accounts returns the Agent's accounts so far, of the session's, which session reads. Packets in
// datagrams that were not sent yet are in Seen alone. Any goroutine may call it.
func (a *Agent) Accounts(session func() (capture.Accounts, error)) (capture.Accounts, error) {
	a.mu.Lock()
	taken := slices.Clone(a.taken)
	a.mu.Unlock()
	own, err := session()
	if err != nil || taken == nil {
		return own, err
	}
	return own.SoFar(taken), nil
}

// Close ends the goroutines and closes the socket. It may be called again.
func (a *Agent) Close() error {
	if a.stop != nil {
		a.stop()
		a.running.Wait()
	}
	return a.collector.close()
}

// sample adds the samples about a packet.
func (a *Agent) sample(p *capture.Packet) {
	s := &a.sources[p.Source]
	if !s.IsEthernet() {
		a.passOver(p)
		return
	}
	packet := s.packet(p, a.options.Header, a.collector.longest)
	in := a.common.open() // the datagram with which the packet is taken
	if s.flows {
		in = a.commonFor(len(packet.Data) + sflow.MaxFlow)
		in.addFlow(int(p.Source), s.flow(p, packet), p.Weight)
		s.waiting++
		a.counts.flows.Add(1)
	}
	if v, known := s.VerdictOf(p); s.discards && known && (v == capture.Drop || v == capture.Aborted) {
		d := a.specialFor(len(packet.Data) + sflow.MaxDiscard)
		d.addDiscard(int(p.Source), s.discard(p, packet), p.Weight)
		a.counts.discards.Add(1)
		if !s.flows {
			in = d
			s.waiting++
		}
	}
	h := in.of(int(p.Source))
	h.packets++
	h.bytes += len(p.Data)
	if in.samples == 0 { // no sample is about this packet
		a.take(in)
	}
}

// passOver counts a packet that is no Ethernet frame: samples have these alone.
func (a *Agent) passOver(p *capture.Packet) {
	a.passed++
	a.mu.Lock()
	defer a.mu.Unlock()
	a.taken[p.Source].NotTaken++
}

// addCounters adds counter samples.
func (a *Agent) addCounters(read []polled) {
	for _, p := range read {
		a.numbers[p.source]++
		if p.source == hostSource {
			a.specialFor(p.length()).addCounters(a.numbers[p.source], p)
		} else {
			a.commonFor(p.length()).addCounters(a.numbers[p.source], p)
		}
		a.counts.counters.Add(1)
	}
}

// commonFor returns the datagram at the end of the line when it has room for so many bytes.
func (a *Agent) commonFor(bytes int) *datagram {
	if d := a.common.open(); d.samples > 0 && len(d.bytes)+bytes > a.collector.longest {
		if a.common.isFull() {
			a.sendOldest()
		}
		a.common.shut()
	}
	return a.ready(a.common.open())
}

// specialFor returns the datagram for samples that not all programs know, when it has room.
func (a *Agent) specialFor(bytes int) *datagram {
	if d := a.special; d.samples > 0 && len(d.bytes)+bytes > a.collector.longest {
		a.sendSpecial()
	}
	return a.ready(a.special)
}

// ready begins a datagram unless it is begun.
func (a *Agent) ready(d *datagram) *datagram {
	if d.samples == 0 {
		d.begin(a.header(d))
	}
	return d
}

// header is that of a datagram, as far as it is known.
func (a *Agent) header(d *datagram) sflow.Header {
	return sflow.Header{
		Agent: a.options.Address, SubAgent: a.options.SubAgent, Sequence: a.sequence + 1,
		Uptime: uint32(time.Since(a.started).Milliseconds()), Samples: d.samples,
	}
}

// sendOldest sends the datagram at the front of the line.
func (a *Agent) sendOldest() {
	a.send(a.common.oldest())
	a.common.remove()
}

func (a *Agent) sendSpecial() {
	a.send(a.special)
	a.special.clear()
}

// send sends a datagram.
func (a *Agent) send(d *datagram) {
	a.weigh(d)
	d.finish(a.header(d))
	a.sequence++
	bounced, err := a.collector.send(d.bytes)
	a.counts.refused.Add(bounced)
	if err == nil {
		a.counts.datagrams.Add(1)
		a.counts.bytes.Add(uint64(len(d.bytes)))
		a.take(d)
	} else {
		a.counts.refused.Add(1)
		a.refuse(d)
	}
	if (err != nil || bounced > 0) && !a.told && a.options.Notice != nil {
		a.told = true
		a.options.Notice(fmt.Errorf("sflow://%s: datagrams do not arrive: %w; the capture goes on", a.options.Collector, cmp.Or(err, errBounced)))
	}
}

// take counts the packets of a datagram as taken.
func (a *Agent) take(d *datagram) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range d.held {
		h := &d.held[i]
		a.taken[i].Captured += uint64(h.packets)
		a.taken[i].Bytes += uint64(h.bytes)
		*h = held{}
	}
}

// refuse counts the packets of a datagram as samples that were lost, and its notifications as
// such that were not made: weigh has counted only the packets that they stand for besides.
func (a *Agent) refuse(d *datagram) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range d.held {
		packets := uint64(d.held[i].packets)
		a.sources[i].refused += packets
		a.taken[i].NotTaken += packets
	}
	for _, m := range d.marks {
		if m.discard {
			a.sources[m.source].unnoticed++
		}
	}
}
