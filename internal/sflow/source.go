package sflow

import (
	"slices"
	"time"

	"github.com/xdpcap/xdpcap/capture"
)

// checkSequence is the length of an Ethernet frame's check sequence. Packets at XDP come without
// it.
const checkSequence = 4

// A source is a source of the session, with the state of its samples.
type source struct {
	*capture.Source
	data            *dataSource
	flows, discards bool // the kinds of samples that its packets make

	scale   scale
	waiting uint64 // samples that count for the source's scale and were not sent yet
	rate    uint64 // rate of the last samples that were sent
	refused uint64 // its packets in datagrams that the socket refused

	unnoticed uint64 // discarded packets without a notification, because of sampling or refused datagrams
}

// A dataSource is a data source of sFlow: an interface in both directions, with all its hooks.
type dataSource struct {
	index uint32

	flowNumber, discardNumber, counterNumber uint32 // sequence numbers of its samples

	pool, drops uint64                       // of its flow samples
	earlier     struct{ pool, drops uint64 } // of sources that were forgotten
}

// A direction is a direction of an interface's packets.
type direction struct {
	index   int
	arrival uint32 // see capture.Source
	sent    capture.Direction
}

// addSources adds the session's new sources.
func (a *Agent) addSources() {
	come := a.list.Update()
	for _, i := range come {
		a.add(i)
	}
	if len(come) > 0 {
		a.setPolled()
	}
}

// Forget returns false while a datagram that is not sent yet holds a packet of the source, whose
// interface has gone. It implements [capture.Forgetter].
func (a *Agent) Forget(source int) bool {
	a.addSources()
	for _, d := range slices.Concat(a.common.datagrams, a.discards.datagrams) {
		if *d.of(source) != (held{}) {
			return false
		}
	}
	now, err := a.accounts()
	if err != nil {
		return false
	}
	a.forget(source, now.Of(source))
	return true
}

// forget adds the final account of a source to its interface's sums, and clears the source, because
// another source may get its index.
func (a *Agent) forget(i int, final capture.Account) {
	s := &a.sources[i]
	s.scale.update(final.Minus(a.earlier.Of(i)))
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
	}
}

// add adds a source. Only the first source of each direction of an interface makes flow samples,
// because a packet must have only one. Sources of lost packets make no flow samples: a flow sample
// is of a packet that an interface receives or sends.
func (a *Agent) add(i int) {
	s := *a.list.Of(i)
	at := direction{s.Index, s.Arrival, s.Direction()}
	own := source{
		Source:   &s,
		data:     a.dataOf(s.Index),
		flows:    !a.sampled[at] && !s.Hook.Loses() && !a.description.Options.StackDrops,
		discards: s.HasVerdict() || s.Hook == capture.UnknownHook || s.Hook == capture.Entry, // in files, of some entries
		scale:    newScale(&a.description.Options),
	}
	if !a.description.IsLive() { // each packet has its own weight
		own.scale.weighed = true
	}
	own.rate = own.scale.nominal
	for len(a.sources) <= i {
		a.sources = append(a.sources, source{Source: &capture.Source{}, data: &dataSource{}})
	}
	a.sources[i] = own
	a.sampled[at] = a.sampled[at] || own.flows
}

// dataOf returns the data source of an interface.
func (a *Agent) dataOf(index int) *dataSource {
	if a.known[index] == nil {
		a.known[index] = &dataSource{index: uint32(index)}
	}
	return a.known[index]
}

// setPolled makes poll read the counters of the interfaces of all current sources.
func (a *Agent) setPolled() {
	all := make(speeds)
	for i := range a.sources {
		all[a.sources[i].Index] = a.sources[i].Speed
	}
	a.interfaces.Store(&all)
}

// maxHeader is the largest length of a datagram's header.
const maxHeader = 40

// packet returns the part of a packet for a sample: at most this many bytes, and no more than fit
// into a datagram.
func (s *source) packet(p *capture.Packet, most, longest int) Packet {
	most = min(most, longest-maxHeader-maxDiscard, len(p.Data))
	out := Packet{Data: p.Data[:most], FrameLength: p.WireLen + checkSequence, Stripped: checkSequence}
	out.Tag, out.Tagged = tag(p.Data)
	return out
}

// tag returns the control information of the outer VLAN tag.
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

func (s *source) flow(p *capture.Packet, packet Packet) Flow {
	s.data.flowNumber++
	return Flow{
		Sequence: s.data.flowNumber,
		Index:    s.data.index,
		Input:    s.input(p),
		Output:   s.output(p),
		Packet:   packet,
	}
}

// input returns the interface that received a packet. It is unknown for packets that the stack
// sends.
func (s *source) input(p *capture.Packet) Interface {
	if d, _ := s.DirectionOf(p); d == capture.Out {
		return Interface{}
	}
	return Interface{Value: uint32(s.Index)}
}

// output returns the interface that sends a packet, as far as it follows from the verdict.
func (s *source) output(p *capture.Packet) Interface {
	if d, _ := s.DirectionOf(p); d == capture.Out {
		return Interface{Value: uint32(s.Index)}
	}
	verdict, known := s.VerdictOf(p)
	if !known {
		return Interface{}
	}
	switch verdict {
	case capture.Drop, capture.Aborted:
		return Interface{Format: IsDiscard, Value: uint32(reasonXDP)}
	case capture.Tx, capture.Redirect:
		switch {
		case s.File != "" && verdict == capture.Redirect: // files record its name alone
		case p.To.IsElsewhere(): // in this namespace, its index is another interface's
		case s.File == "" && p.To.Index() > 0:
			return Interface{Value: uint32(p.To.Index())}
		case verdict == capture.Tx:
			return Interface{Value: uint32(s.Index)}
		}
	}
	return Interface{}
}

// isDiscarded reports whether a packet was discarded, by the kernel or by an XDP program.
func (s *source) isDiscarded(p *capture.Packet) bool {
	if s.Hook.Loses() {
		return true
	}
	v, known := s.VerdictOf(p)
	return s.discards && known && v.Discards()
}

// discard returns the notification of a discarded packet of a source.
func (a *Agent) discard(s *source, p *capture.Packet, packet Packet) Discard {
	data := s.data
	if s.File == "" && p.Device() != 0 { // files record its name alone
		data = a.dataOf(p.Device().Index())
	}
	data.discardNumber++
	d := Discard{
		Sequence: data.discardNumber,
		Index:    data.index,
		Packet:   packet,
	}
	if s.Hook.Loses() { // the packet may have been on its way in, or on its way out
		d.Linux, d.Function = a.description.CauseNames(p.Source, p.Facts)
		d.Reason = reasonOf(d.Linux, d.Function)
		return d
	}
	d.Input, d.Reason, d.Function, d.Linux = uint32(s.Index), reasonXDP, s.Target.Name, "XDP_DROP"
	if p.Verdict == capture.Aborted {
		d.Linux = "XDP_ABORTED"
	}
	return d
}

// accountsInterval is the shortest time between readings of the accounts, because each needs a
// system call per source.
const accountsInterval = 20 * time.Millisecond

// readAccounts reads the accounts, at most once per accountsInterval.
func (a *Agent) readAccounts() {
	now := time.Now()
	if a.accounts == nil || now.Sub(a.accountsRead) < accountsInterval {
		return
	}
	accounts, err := a.accounts()
	if err != nil {
		return
	}
	a.accountsRead = now
	for i := range a.sources {
		s := &a.sources[i]
		if i < len(accounts) {
			s.scale.update(accounts[i].Minus(a.earlier.Of(i)))
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

// weigh writes the number of packets that each sample of a datagram represents into the sample. A
// source that makes flow samples shares its packets among those, which are in common datagrams.
func (a *Agent) weigh(d *datagram, isCommon bool) {
	a.readAccounts()
	for i := range a.sources {
		s, n := &a.sources[i], uint64(d.of(i).samples)
		if n > 0 && s.flows == isCommon {
			s.rate = s.scale.share(n, s.waiting)
			s.waiting -= n
		}
	}
	for _, m := range d.marks {
		s := &a.sources[m.source]
		rate := s.scale.rateOf(m.weight, s.rate)
		if m.isDiscard {
			s.unnoticed += rate - 1
			setDrops(d.bytes[m.at:], uint32(s.unnoticed))
			continue
		}
		setSampling(d.bytes[m.at:], Sampling{
			Rate: uint32(rate), Pool: uint32(s.data.pool), Drops: uint32(s.data.drops),
		})
	}
}
