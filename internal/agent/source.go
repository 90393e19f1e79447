package agent

import (
	"slices"
	"time"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/sflow"
)

// checkSequence is the length of an Ethernet frame's check sequence. Packets at XDP come without
// it.
const checkSequence = 4

// A source is a source of the session, with what its samples need.
type source struct {
	*capture.Source
	data            *dataSource
	flows, discards bool // which samples its packets make

	scale   scale
	waiting uint64 // samples that count for the source's scale and were not sent yet
	rate    uint64 // rate of the last samples that were sent
	refused uint64 // its packets in datagrams that the socket did not take

	unnoticed uint64 // discarded packets without a notification, because of sampling or refused datagrams
}

// A dataSource is a data source of sFlow: an interface in both directions, with all its hooks.
type dataSource struct {
	id                        sflow.Source
	flowNumber, discardNumber uint32                       // sequence numbers of its samples
	pool, drops               uint64                       // pool and drops of its flow samples
	earlier                   struct{ pool, drops uint64 } // of sources of the interface that the agent has forgotten
}

// A direction is a direction of an interface's packets.
type direction struct {
	index   int
	arrival uint32 // see capture.Source
	sent    capture.Direction
}

// meet adds sources that have come.
func (a *Agent) meet() {
	come := a.list.Look()
	for _, i := range come {
		a.add(i)
	}
	if len(come) > 0 {
		a.poll()
	}
}

// Forget returns whether nothing of a source whose interface has gone waits to be sent. It
// implements [capture.Forgetter].
func (a *Agent) Forget(source int) bool {
	a.meet()
	for _, d := range append(a.common.datagrams[:], a.special) {
		if *d.of(source) != (held{}) {
			return false
		}
	}
	now, err := a.accounts()
	if err != nil {
		return false
	}
	a.leave(source, now.Of(source))
	return true
}

// leave takes the final account of a source, whose index another one may get.
func (a *Agent) leave(i int, final capture.Account) {
	s := &a.sources[i]
	s.scale.look(final.Minus(a.earlier.Of(i)))
	*a.earlier.At(i) = final
	if s.flows {
		s.data.earlier.pool += s.scale.pool
		s.data.earlier.drops += s.scale.lost + s.refused
	}
	delete(a.sampled, direction{s.Index, s.Arrival, s.Direction()})
	data := s.data
	*s = source{Source: s.Source, data: &dataSource{}, rate: s.rate}
	if !slices.ContainsFunc(a.sources, func(other source) bool { return other.data == data }) {
		delete(a.known, s.Index)
		delete(a.numbers, uint32(s.Index))
	}
}

// add adds a source. Only the first source of each direction of an interface makes flow samples,
// because a packet must have only one. Sources of packets that get lost make none: a flow sample is
// of a packet that an interface receives or sends.
func (a *Agent) add(i int) {
	s := *a.list.Of(i)
	if a.known[s.Index] == nil {
		a.known[s.Index] = &dataSource{id: sflow.Source{Index: uint32(s.Index)}}
	}
	at := direction{s.Index, s.Arrival, s.Direction()}
	own := source{
		Source:   &s,
		data:     a.known[s.Index],
		flows:    !a.sampled[at] && !s.Hook.Loses() && !a.description.Options.StackDrops,
		discards: s.HasVerdict() || s.Hook == capture.UnknownHook,
		scale:    newScale(&a.description.Options),
	}
	if !a.description.IsLive() { // each packet says how many it represents
		own.scale.weighed = true
	}
	own.rate = own.scale.nominal
	for len(a.sources) <= i {
		a.sources = append(a.sources, source{Source: &capture.Source{}, data: &dataSource{}})
	}
	a.sources[i] = own
	a.sampled[at] = a.sampled[at] || own.flows
}

// poll makes the counters of all interfaces be read.
func (a *Agent) poll() {
	all := make(speeds)
	for i := range a.sources {
		all[a.sources[i].Index] = a.sources[i].Speed
	}
	a.interfaces.Store(&all)
}

// maxHeader is the largest length of a datagram's header.
const maxHeader = 40

// packet returns what samples contain of a packet: at most this many bytes, and no more than fit
// into a datagram.
func (s *source) packet(p *capture.Packet, most, longest int) sflow.Packet {
	most = min(most, longest-maxHeader-sflow.MaxDiscard, len(p.Data))
	out := sflow.Packet{Data: p.Data[:most], FrameLength: p.WireLen + checkSequence, Stripped: checkSequence}
	out.Tag, out.Tagged = tag(p.Data)
	return out
}

// tag finds the control information of the outer VLAN tag.
func tag(data []byte) (control uint16, found bool) {
	const ethernet = 14
	if len(data) < ethernet+2 {
		return 0, false
	}
	switch uint16(data[12])<<8 | uint16(data[13]) {
	case 0x8100, 0x88a8:
		return uint16(data[ethernet])<<8 | uint16(data[ethernet+1]), true
	}
	return 0, false
}

func (s *source) flow(p *capture.Packet, packet sflow.Packet) sflow.Flow {
	s.data.flowNumber++
	return sflow.Flow{
		Sequence: s.data.flowNumber,
		Source:   s.data.id,
		Input:    s.input(p),
		Output:   s.output(p),
		Packet:   packet,
	}
}

// input is where packets come from. It is not known for packets that the stack sends.
func (s *source) input(p *capture.Packet) sflow.Interface {
	if d, _ := s.DirectionOf(p); d == capture.Out {
		return sflow.Interface{}
	}
	return sflow.Interface{Value: uint32(s.Index)}
}

// output is where a packet goes, as far as its verdict tells.
func (s *source) output(p *capture.Packet) sflow.Interface {
	if d, _ := s.DirectionOf(p); d == capture.Out {
		return sflow.Interface{Value: uint32(s.Index)}
	}
	verdict, known := s.VerdictOf(p)
	if !known {
		return sflow.Interface{}
	}
	switch verdict {
	case capture.Drop, capture.Aborted:
		return sflow.Interface{Format: sflow.IsDiscard, Value: uint32(sflow.ReasonXDP)}
	case capture.Tx, capture.Redirect:
		switch {
		case s.File != "" && verdict == capture.Redirect: // of which a file has a name
		case p.To.IsElsewhere(): // here, its index is another interface's
		case s.File == "" && p.To.Index() > 0:
			return sflow.Interface{Value: uint32(p.To.Index())}
		case verdict == capture.Tx:
			return sflow.Interface{Value: uint32(s.Index)}
		}
	}
	return sflow.Interface{}
}

// isDiscarded tells whether a packet was discarded, by the kernel or by an XDP program.
func (s *source) isDiscarded(p *capture.Packet) bool {
	if s.Hook.Loses() {
		return true
	}
	v, known := s.VerdictOf(p)
	return s.discards && known && (v == capture.Drop || v == capture.Aborted)
}

// discard is the notification of a packet that was discarded. names are CauseNames of the session.
func (s *source) discard(p *capture.Packet, packet sflow.Packet, names func(source uint16, f *capture.Facts) (reason, location string)) sflow.Discard {
	s.data.discardNumber++
	d := sflow.Discard{
		Sequence: s.data.discardNumber,
		Source:   s.data.id,
		Packet:   packet,
	}
	if s.Hook.Loses() { // the packet may have been on its way in, or on its way out
		d.Linux, d.Function = names(p.Source, p.Facts)
		d.Reason = sflow.ReasonOf(d.Linux, d.Function)
		return d
	}
	d.Input, d.Reason, d.Function, d.Linux = uint32(s.Index), sflow.ReasonXDP, s.Target.Name, "XDP_DROP"
	if p.Verdict == capture.Aborted {
		d.Linux = "XDP_ABORTED"
	}
	return d
}

// lookInterval is the shortest time between readings of the accounts, because each needs a system
// call per source.
const lookInterval = 20 * time.Millisecond

// look reads the accounts, at most once per lookInterval.
func (a *Agent) look() {
	now := time.Now()
	if a.accounts == nil || now.Sub(a.looked) < lookInterval {
		return
	}
	accounts, err := a.accounts()
	if err != nil {
		return
	}
	a.looked = now
	for i := range a.sources {
		s := &a.sources[i]
		if i < len(accounts) {
			s.scale.look(accounts[i].Minus(a.earlier.Of(i)))
		}
		s.data.pool, s.data.drops = s.data.earlier.pool, s.data.earlier.drops
	}
	for i := range a.sources {
		if s := &a.sources[i]; s.flows {
			s.data.pool += s.scale.pool
			s.data.drops += s.scale.lost + s.refused
		}
	}
}

// weigh writes into the samples of a datagram how many packets they represent.
func (a *Agent) weigh(d *datagram) {
	a.look()
	for i := range a.sources {
		s, n := &a.sources[i], uint64(d.of(i).samples)
		if n > 0 && s.flows == (d != a.special) {
			s.rate = s.scale.share(n, s.waiting)
			s.waiting -= n
		}
	}
	for _, m := range d.marks {
		s := &a.sources[m.source]
		rate := s.scale.rateOf(m.weight, s.rate)
		if m.discard {
			s.unnoticed += rate - 1
			sflow.SetDrops(d.bytes[m.at:], uint32(s.unnoticed))
			continue
		}
		sflow.SetSampling(d.bytes[m.at:], sflow.Sampling{
			Rate: uint32(rate), Pool: uint32(s.data.pool), Drops: uint32(s.data.drops),
		})
	}
}
