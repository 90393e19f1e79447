package meter

import (
	"errors"
	"fmt"
	"math"

	"github.com/cilium/ebpf"

	"github.com/xdpcap/xdpcap/internal/support"
)

// program is the name of the subject's program in protocols.c.
func (b BenchSubject) program() string {
	switch {
	case b.Empty:
		return protocolsProgEmpty
	case b.Flows == NewFlows:
		return "fresh_" + b.Variant.String()
	case b.Sample > 0:
		return "sampled_" + b.Variant.String()
	}
	return b.Variant.String()
}

// A subject is one program that is measured.
type subject struct {
	BenchSubject
	maps     protocolMaps
	prog     *ebpf.Program
	all, hot int // see the function instructions

	repeat uint32          // how often each CPU sends one packet in a round
	sent   map[Class]Tally // since the start, warm-up included
	rounds []benchRound
}

// openSubjects loads the programs, or none.
func openSubjects(list []BenchSubject) (subjects []*subject, err error) {
	if err := support.CheckProcess(); err != nil {
		return nil, err
	}
	for _, b := range list {
		s, err := newSubject(b)
		if err != nil {
			closeSubjects(subjects)
			return nil, err
		}
		subjects = append(subjects, s)
	}
	return subjects, nil
}

func closeSubjects(subjects []*subject) {
	for _, s := range subjects {
		s.close()
	}
}

func newSubject(b BenchSubject) (*subject, error) {
	spec, err := protocolsSpec(ProtocolsOptions{Sizes: b.Sizes, Flows: b.Flows != NoFlows})
	if err != nil {
		return nil, err
	}
	if b.Sample > 0 {
		if err := spec.Variables[protocolsVarSampled].Set(uint32(min(1<<32/uint64(b.Sample), math.MaxUint32))); err != nil {
			return nil, fmt.Errorf("set %s: %w", protocolsVarSampled, err)
		}
	}
	s := &subject{BenchSubject: b, sent: make(map[Class]Tally)}
	s.maps.variant = b.Variant
	if s.prog, err = s.maps.load(spec, b.program()); err != nil {
		return nil, errors.Join(support.ExplainLoad("load program "+b.program(), err), s.maps.close())
	}
	if s.all, s.hot, err = instructions(s.prog); err != nil {
		return nil, errors.Join(err, s.close())
	}
	if b.Sizes || b.Flows != NoFlows {
		s.hot = 0 // hot omits the function that counts flows, but every packet runs it
	}
	return s, nil
}

func (s *subject) close() error { return errors.Join(s.prog.Close(), s.maps.close()) }

// verify compares what was counted with what was sent.
func (s *subject) verify() error {
	if s.Empty {
		return nil
	}
	counted, err := s.counted()
	if err != nil {
		return fmt.Errorf("read the counters of %s: %w", s.program(), err)
	}
	sent := s.countable()
	for name, want := range sent {
		if got := counted[name]; !s.isRight(got, want) {
			return fmt.Errorf("%s counted %d packets and %d bytes of %v, but %d and %d were sent: its figures are "+
				"worth nothing; please report this", s.program(), got.Packets, got.Bytes, name, want.Packets, want.Bytes)
		}
	}
	for name := range counted {
		if _, ok := sent[name]; !ok {
			return fmt.Errorf("%s counted packets that nobody sent: its figures are worth nothing; please report this", s.program())
		}
	}
	return nil
}

// counted reads the counters that are not zero, by their names.
func (s *subject) counted() (map[string]Tally, error) {
	counted := make(map[string]Tally)
	if s.Variant != Four {
		c, err := s.maps.read(false)
		for class := range c.Classes {
			counted[class.String()] = c.Class(class)
		}
		return counted, err
	}
	var perCPU []protocolsFourTally
	if err := s.maps.four.Lookup(uint32(0), &perCPU); err != nil {
		return nil, err
	}
	for _, t := range perCPU {
		for name, packets := range map[string]uint64{IPv4(6).String(): t.Tcp, IPv4(17).String(): t.Udp, IPv4(1).String(): t.Icmp, other: t.Other} {
			if packets > 0 {
				addTally(counted, name, Tally{Packets: packets})
			}
		}
	}
	return counted, nil
}

// other is the name of the counter of Four for packets that have none of their own.
const other = "other"

// countable returns the expected counters, by name, of a subject that counts all packets.
func (s *subject) countable() map[string]Tally {
	all := make(map[string]Tally)
	for class, t := range s.sent {
		switch {
		case s.Variant != Four:
			addTally(all, class.String(), t)
		case class == IPv4(6) || class == IPv4(17) || class == IPv4(1):
			addTally(all, class.String(), Tally{Packets: t.Packets})
		default:
			addTally(all, other, Tally{Packets: t.Packets})
		}
	}
	return all
}

func addTally(m map[string]Tally, name string, t Tally) {
	t.Add(m[name])
	m[name] = t
}

// isRight compares a counter with the expected value. A sample may be off by six standard
// deviations, which chance exceeds once in a billion samples.
func (s *subject) isRight(got, sent Tally) bool {
	if s.Sample == 0 {
		return got == sent
	}
	share := 1 / float64(s.Sample)
	mean := share * float64(sent.Packets)
	if math.Abs(float64(got.Packets)-mean) > 1+6*math.Sqrt(mean*(1-share)) {
		return false
	}
	return sent.Packets == 0 || got.Bytes*sent.Packets == sent.Bytes*got.Packets // all packets of a class are equally long
}
