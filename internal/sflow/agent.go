package sflow

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
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
	noticed   bool   // Notice was called for datagrams that do not arrive
	skipped   uint64 // packets that were skipped because they are not Ethernet frames

	description  capture.Description
	list         *capture.SourceList
	sources      []source         // of the list
	earlier      capture.Accounts // counts of an earlier source with the same index
	sampled      map[direction]bool
	known        map[int]*dataSource // by index
	started      time.Time
	accounts     func() (capture.Accounts, error)
	accountsRead time.Time // when the accounts were last read

	mu     sync.Mutex       // guards the next three
	taken  capture.Accounts // NotTaken: in refused datagrams; Captured and Bytes: in others
	counts Counts
	sent   int64 // bytes of datagrams that the socket accepted

	// Some collectors, such as sfacctd 1.7 and Wireshark 4.0, cannot decode samples of discarded
	// packets, and ignore everything after them. So these have datagrams of their own.
	common   *line
	discards *line
	sequence uint32 // of datagrams

	polled chan []*InterfaceCounters

	interfaces atomic.Pointer[speeds] // the interfaces whose counters are polled
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
	a.list = capture.NewSourceList(&d)
	for i := range d.Sources {
		a.add(i)
	}
	a.setPolled()
	a.accounts, a.started = d.Accounts, time.Now()
	a.common, a.discards = newLine(commonLength), newLine(1)
	if len(d.Sources) > 0 {
		a.options.SubAgent = cmp.Or(a.options.SubAgent, uint32(d.Sources[0].Index))
	}
	a.polled = make(chan []*InterfaceCounters, 1)

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
	if a.description.Options.Immediate {
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
	if !a.description.Options.Immediate {
		now = now.Add(-holdTime)
	}
	a.sendBegunBefore(now)
	return nil
}

// sendBegunBefore sends the datagrams that were begun before a time.
func (a *Agent) sendBegunBefore(then time.Time) {
	for _, l := range []*line{a.common, a.discards} {
		for d := l.oldest(); d.samples > 0 && !d.begun.After(then); d = l.oldest() {
			a.sendOldest(l)
		}
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
		in = a.open(a.common, len(packet.Data)+maxFlow)
		in.addFlow(int(p.Source), s.flow(p, packet), p.Weight)
		s.waiting++
	}
	if s.isDiscarded(p) {
		d := a.open(a.discards, len(packet.Data)+maxDiscard)
		d.addDiscard(int(p.Source), a.discard(s, p, packet), p.Weight)
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

// addCounters adds counter samples.
func (a *Agent) addCounters(read []*InterfaceCounters) {
	for _, c := range read {
		data := a.dataOf(int(c.Index))
		data.counterNumber++
		a.open(a.common, countersLength).addCounters(data.counterNumber, c)
	}
}

// open returns the open datagram of a line, with room for this many bytes.
func (a *Agent) open(l *line, bytes int) *datagram {
	if d := l.open(); d.samples > 0 && len(d.bytes)+bytes > a.collector.longest {
		if l.isFull() {
			a.sendOldest(l)
		}
		if d.samples > 0 { // it is not the one that was sent
			l.shut()
		}
	}
	d := l.open()
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

// sendOldest sends the datagram at the front of a line, and removes it.
func (a *Agent) sendOldest(l *line) {
	d := l.oldest()
	a.weigh(d, l == a.common)
	d.finish(a.header(d))
	a.sequence++
	bounced, err := a.collector.send(d.bytes)
	a.countSent(d, bounced, err == nil)
	if err == nil {
		a.countTaken(d)
	} else {
		a.countRefused(d)
	}
	l.remove()
	if (err != nil || bounced > 0) && !a.noticed && a.options.Notice != nil {
		a.noticed = true
		a.options.Notice(fmt.Errorf("sflow://%s: datagrams do not arrive: %w; the capture continues", a.options.Collector, cmp.Or(err, errBounced)))
	}
}
