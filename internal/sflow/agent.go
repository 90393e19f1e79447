package sflow

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xdpcap/xdpcap/capture"
)

// DefaultHeader is the number of bytes of a packet that are sent by default. It is sFlow's own
// default.
const DefaultHeader = 128

// holdTime is the time for which a sample waits for others. Flush is called at least four times a
// second, so a sample is sent within a second.
const holdTime = 250 * time.Millisecond

// AgentOptions are the options of an Agent.
type AgentOptions struct {
	Collector string        // HOST:PORT of UDP
	Address   netip.Addr    // the agent's; not valid = the source address of datagrams to the collector
	SubAgent  uint32        // 0 = the index of the session's first interface
	Header    int           // at most this many bytes of each packet; 0 = DefaultHeader
	Interval  time.Duration // between samples of an interface's counters; 0 = no samples

	// Notice, if not nil, is called once when datagrams no longer arrive. The goroutine of the
	// Agent's methods calls it, so it must return without waiting.
	Notice func(error)
}

// An Agent is an Output that sends packets to a collector. It never waits for the network: packets
// that its socket refuses count as not taken. An absent collector is not an error.
//
// A packet has one flow sample: if it passes several hooks of an interface, such as entry and exit,
// only the first one makes a sample. All exits make notifications of discarded packets. A packet
// that the stack drops makes only a notification.
//
// An Agent belongs to one goroutine, except Counts, Size and Accounts.
type Agent struct {
	options   AgentOptions
	collector *collector
	counts    counts
	noticed   bool   // Notice was called for datagrams that do not arrive
	skipped   uint64 // packets that were skipped because they are not Ethernet frames

	description  capture.Description
	causeNames   func(source uint16, f *capture.Facts) (reason, location string) // the description's
	list         *capture.SourceList
	sources      []source         // of the list
	earlier      capture.Accounts // counts of an earlier source with the same index
	sampled      map[direction]bool
	known        map[int]*dataSource // by index
	immediate    bool                // AgentOptions.Immediate of the session
	started      time.Time
	accounts     func() (capture.Accounts, error)
	accountsRead time.Time // when the accounts were last read

	mu    sync.Mutex       // guards taken
	taken capture.Accounts // NotTaken: in refused datagrams; Captured and Bytes: in others

	// Some collectors, such as sfacctd 1.7 and Wireshark 4.0, cannot decode samples of discarded
	// packets, and ignore everything after them. So these have datagrams of their own.
	common   *line
	special  *datagram
	sequence uint32 // of datagrams

	polled chan []*InterfaceCounters

	interfaces atomic.Pointer[speeds] // the interfaces whose counters are polled
	numbers    map[uint32]uint32      // of counter samples, by the interface's index
	stop       context.CancelFunc     // ends the goroutines; nil before Begin
	running    sync.WaitGroup
}

// OpenAgent looks up the collector's address. The caller must call Close unless the Agent has
// ended.
func OpenAgent(o AgentOptions) (*Agent, error) {
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

// Begin starts the goroutines that look up the collector's address again and read counters.
func (a *Agent) Begin(d capture.Description) error {
	a.description, a.sampled, a.known = d, make(map[direction]bool), make(map[int]*dataSource)
	a.causeNames = a.description.CauseNames
	a.list = capture.NewSourceList(&d)
	for i := range d.Sources {
		a.add(i)
	}
	a.setPolled()
	a.immediate = d.Options.Immediate
	a.accounts, a.started = d.Accounts, time.Now()
	a.common, a.special = newLine(), newDatagram()
	if len(d.Sources) > 0 {
		a.options.SubAgent = cmp.Or(a.options.SubAgent, uint32(d.Sources[0].Index))
	}
	a.polled, a.numbers = make(chan []*InterfaceCounters, 1), make(map[uint32]uint32)

	var ctx context.Context
	ctx, a.stop = context.WithCancel(context.Background())
	a.running.Go(func() { a.collector.watchAddress(ctx) })
	if a.options.Interval > 0 && d.IsLive() { // interfaces in capture files are not this machine's
		a.running.Go(func() { poll(ctx, a.options.Interval, a.interfaces.Load, a.polled) })
	}
	return nil
}

// Write adds packets to datagrams, and sends full datagrams when enough others wait after them. It
// keeps no references to the packets and allocates no memory.
func (a *Agent) Write(packets []capture.Packet) error {
	a.addSources()
	for i := range packets {
		a.sample(&packets[i])
	}
	if a.immediate {
		a.sendBegunBefore(time.Now())
	}
	return nil
}

// Flush sends datagrams whose first sample has waited for holdTime, adds counters that were read,
// and switches to a new address of the collector.
func (a *Agent) Flush() error {
	a.collector.switchAddress()
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

// sendBegunBefore sends the datagrams that were begun before a time.
func (a *Agent) sendBegunBefore(then time.Time) {
	for d := a.common.oldest(); d.samples > 0 && !d.begun.After(then); d = a.common.oldest() {
		a.sendOldest()
	}
	if a.special.samples > 0 && !a.special.begun.After(then) {
		a.sendSpecial()
	}
}

// End sends the remaining datagrams. In its account, packets in datagrams that the socket refused
// are lost.
func (a *Agent) End(final capture.Accounts) (capture.Accounts, error) {
	a.accounts, a.accountsRead = func() (capture.Accounts, error) { return final, nil }, time.Time{}
	a.sendBegunBefore(time.Now())
	if a.skipped > 0 && a.options.Notice != nil {
		a.options.Notice(fmt.Errorf("sflow://%s: sFlow samples need Ethernet frames: skipped %d packets that are not", a.options.Collector, a.skipped))
	}
	return final.Delivered(a.taken), a.Close()
}

// Accounts returns the Agent's accounts so far; session reads those of the session. Packets in
// datagrams that were not sent yet are counted only in Seen. It is safe for concurrent use.
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
		a.countSkipped(p)
		return
	}
	packet := s.packet(p, a.options.Header, a.collector.longest)
	in := a.common.open() // the datagram whose sending accounts for the packet
	if s.flows {
		in = a.commonFor(len(packet.Data) + maxFlow)
		in.addFlow(int(p.Source), s.flow(p, packet), p.Weight)
		s.waiting++
		a.counts.flows.Add(1)
	}
	if s.isDiscarded(p) {
		d := a.specialFor(len(packet.Data) + maxDiscard)
		d.addDiscard(int(p.Source), a.discard(s, p, packet), p.Weight)
		a.counts.discards.Add(1)
		if !s.flows {
			in = d
			s.waiting++
		}
	}
	h := in.of(int(p.Source))
	h.packets++
	h.bytes += len(p.Data)
	if in.samples == 0 { // this packet has no sample
		a.countTaken(in)
	}
}

// countSkipped counts a packet that is not an Ethernet frame, because samples can have only these.
func (a *Agent) countSkipped(p *capture.Packet) {
	a.skipped++
	a.mu.Lock()
	defer a.mu.Unlock()
	a.taken.At(int(p.Source)).NotTaken++
}

// addCounters adds counter samples.
func (a *Agent) addCounters(read []*InterfaceCounters) {
	for _, c := range read {
		a.numbers[c.Index]++
		a.commonFor(countersLength).addCounters(a.numbers[c.Index], c)
		a.counts.counters.Add(1)
	}
}

// commonFor returns the datagram at the end of the line, after making room in it for this many
// bytes.
func (a *Agent) commonFor(bytes int) *datagram {
	if d := a.common.open(); d.samples > 0 && len(d.bytes)+bytes > a.collector.longest {
		if a.common.isFull() {
			a.sendOldest()
		}
		a.common.shut()
	}
	return a.ready(a.common.open())
}

// specialFor returns the datagram for samples that not all collectors can decode, after making room
// in it.
func (a *Agent) specialFor(bytes int) *datagram {
	if d := a.special; d.samples > 0 && len(d.bytes)+bytes > a.collector.longest {
		a.sendSpecial()
	}
	return a.ready(a.special)
}

// ready begins a datagram unless it was begun.
func (a *Agent) ready(d *datagram) *datagram {
	if d.samples == 0 {
		d.begin(a.header(d))
	}
	return d
}

// header returns the header of a datagram. Sequence and number of samples may still change.
func (a *Agent) header(d *datagram) Header {
	return Header{
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
		a.countTaken(d)
	} else {
		a.counts.refused.Add(1)
		a.countRefused(d)
	}
	if (err != nil || bounced > 0) && !a.noticed && a.options.Notice != nil {
		a.noticed = true
		a.options.Notice(fmt.Errorf("sflow://%s: datagrams do not arrive: %w; the capture continues", a.options.Collector, cmp.Or(err, errBounced)))
	}
}

// countTaken counts the packets of a datagram as taken.
func (a *Agent) countTaken(d *datagram) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range d.held {
		h, taken := &d.held[i], a.taken.At(i)
		taken.Captured += uint64(h.packets)
		taken.Bytes += uint64(h.bytes)
		*h = held{}
	}
}

// countRefused counts the packets of a datagram as lost samples, and its notifications as not made.
// weigh has already counted the other packets that these notifications represent.
func (a *Agent) countRefused(d *datagram) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range d.held {
		packets := uint64(d.held[i].packets)
		a.sources[i].refused += packets
		a.taken.At(i).NotTaken += packets
	}
	for _, m := range d.marks {
		if m.discard {
			a.sources[m.source].unnoticed++
		}
	}
}
