package agent

import (
	"time"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/sflow"
)

// checkSequence is how long an Ethernet frame's check sequence is, which no packet at XDP has.
const checkSequence = 4

// A source is one of the session's with what samples of it need.
type source struct {
	*capture.Source
	data            *dataSource
	flows, discards bool // what samples are made of its packets

	scale   scale
	waiting uint64 // samples by which the source is scaled, and that were not sent
	rate    uint64 // of the last ones that were sent
	refused uint64 // packets of it in datagrams that the socket did not take

	unnoticed uint64 // discarded packets for which no notification has arrived: sampling, and refused datagrams
}

// A dataSource is what sFlow calls one: an interface, in both directions, whatever the hooks.
type dataSource struct {
	id                        sflow.Source
	flowNumber, discardNumber uint32 // of its samples
	pool, drops               uint64 // of its flow samples
}

// newSources lets the first source of each direction of an interface make flow samples, because a
// packet is to have one only.
func newSources(d *capture.Description) []source {
	type direction struct {
		index int
		sent  capture.Direction
	}
	sampled, known := make(map[direction]bool), make(map[int]*dataSource)
	sources := make([]source, len(d.Sources))
	for i := range d.Sources {
		s := &d.Sources[i]
		if known[s.Index] == nil {
			known[s.Index] = &dataSource{id: sflow.Source{Type: sflow.SourceInterface, Index: uint32(s.Index)}}
		}
		at := direction{s.Index, s.Direction()}
		sources[i] = source{
			Source:   s,
			data:     known[s.Index],
			flows:    !sampled[at],
			discards: s.HasVerdict(),
			scale:    newScale(&d.Options),
		}
		sources[i].rate = sources[i].scale.nominal
		sampled[at] = true
	}
	return sources
}

// maxHeader is how long a datagram's header is at most.
const maxHeader = 40

// packet is what samples have of a packet: so many bytes at most, and no more than fits into a
// datagram.
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
		Input:    s.input(),
		Output:   s.output(p),
		Packet:   packet,
	}
}

// input is where packets come from. Where those come from that the stack sends is not known.
func (s *source) input() sflow.Interface {
	if s.Direction() == capture.Out {
		return sflow.Interface{}
	}
	return sflow.Interface{Value: uint32(s.Index)}
}

// output is where a packet goes, as far as its verdict says it.
func (s *source) output(p *capture.Packet) sflow.Interface {
	if s.Direction() == capture.Out {
		return sflow.Interface{Value: uint32(s.Index)}
	}
	if !s.HasVerdict() {
		return sflow.Interface{}
	}
	switch p.Verdict {
	case capture.Drop, capture.Aborted:
		return sflow.Interface{Format: sflow.IsDiscard, Value: uint32(sflow.ReasonXDP)}
	case capture.Tx, capture.Redirect:
		switch {
		case p.To.IsElsewhere(): // here, its index is another interface's
		case p.To.Index() > 0:
			return sflow.Interface{Value: uint32(p.To.Index())}
		case p.Verdict == capture.Tx:
			return sflow.Interface{Value: uint32(s.Index)}
		}
	}
	return sflow.Interface{}
}

func (s *source) discard(p *capture.Packet, packet sflow.Packet) sflow.Discard {
	s.data.discardNumber++
	verdict := "XDP_DROP"
	if p.Verdict == capture.Aborted {
		verdict = "XDP_ABORTED"
	}
	return sflow.Discard{
		Sequence: s.data.discardNumber,
		Source:   s.data.id,
		Input:    uint32(s.Index),
		Reason:   sflow.ReasonXDP,
		Packet:   packet,
		Function: s.Target.Name,
		Linux:    verdict,
	}
}

// lookInterval is how often the accounts are read at most: that is a system call for each source.
const lookInterval = 20 * time.Millisecond

// look asks for the accounts, but not too often.
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
		s.scale.look(accounts[i])
		s.data.pool, s.data.drops = 0, 0
	}
	for i := range a.sources {
		if s := &a.sources[i]; s.flows {
			s.data.pool += s.scale.pool
			s.data.drops += s.scale.lost + s.refused
		}
	}
}

// weigh writes into the samples of a datagram what they stand for.
func (a *Agent) weigh(d *datagram) {
	a.look()
	for i := range a.sources {
		s, n := &a.sources[i], uint64(d.held[i].samples)
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
