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

// A direction is that of packets of an interface.
type direction struct {
	index int
	sent  capture.Direction
}

// add adds sources. The first source of each direction of an interface makes flow samples, because
// a packet is to have one only.
func (a *Agent) add(sources []capture.Source) {
	for i := range sources {
		s := &sources[i]
		if a.known[s.Index] == nil {
			a.known[s.Index] = &dataSource{id: sflow.Source{Type: sflow.SourceInterface, Index: uint32(s.Index)}}
		}
		at := direction{s.Index, s.Direction()}
		own := source{
			Source:   s,
			data:     a.known[s.Index],
			flows:    !a.sampled[at],
			discards: s.HasVerdict() || s.Hook == capture.UnknownHook,
			scale:    newScale(&a.description.Options),
		}
		if !a.description.IsLive() { // each packet says for how many it stands
			own.scale.weighed = true
		}
		own.rate = own.scale.nominal
		a.sources = append(a.sources, own)
		a.sampled[at] = true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.taken) < len(a.sources) {
		a.taken = append(a.taken, capture.Account{})
	}
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
		Input:    s.input(p),
		Output:   s.output(p),
		Packet:   packet,
	}
}

// input is where packets come from. Where those come from that the stack sends is not known.
func (s *source) input(p *capture.Packet) sflow.Interface {
	if d, _ := s.DirectionOf(p); d == capture.Out {
		return sflow.Interface{}
	}
	return sflow.Interface{Value: uint32(s.Index)}
}

// output is where a packet goes, as far as its verdict says it.
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
		if i < len(accounts) {
			s.scale.look(accounts[i])
		}
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
