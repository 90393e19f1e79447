package packet

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Stored is the data of a capture file about a packet besides its Facts and bytes. An Input that
// reads files sets it in each Packet. It is valid as long as the packet.
type Stored struct {
	HasVerdict, HasQueue, HasID bool // Facts has them from the file

	NoTime bool // the file has no time for the packet: Facts.Time is the previous packet's

	// Flags are the packet's flags as epb_flags of pcapng has them: in the two lowest bits the
	// direction, 1 = received, 2 = sent, 0 = not known. 0 = the file has none.
	Flags uint32

	// Block is the packet's block in the file; nil = the file has no blocks.
	Block StoredBlock
}

// A StoredBlock is the block of a packet in a capture file. The Input defines its type; an output
// for blocks of this Input recognizes them by it.
type StoredBlock interface {
	// Comments returns the comments of the packet; nil = it has none.
	Comments() []string
}

// ParseLabel is the reverse of [Source.Label]: it splits eth0, eth0@egress or eth0:program@fentry
// into name, hook and target. The hook is UnknownHook if the label names none.
func ParseLabel(label string) (s Source) {
	s.Name, s.Hook = label, UnknownHook
	for hook, kind := range hookKinds {
		rest, ok := strings.CutSuffix(s.Name, kind.suffix)
		colon := strings.LastIndexByte(rest, ':')
		switch {
		case kind.suffix == "" || !ok || kind.traces && colon < 0:
			continue
		case kind.traces:
			rest, s.Target.Name = rest[:colon], rest[colon+1:]
		}
		s.Name, s.Hook = rest, Hook(hook)
		return s
	}
	return s
}

// fileLabel is the label of an interface without a name.
func (s *Source) fileLabel() string {
	if s.Position > 0 {
		return fmt.Sprintf("%s#%d", filepath.Base(s.File), s.Position)
	}
	return filepath.Base(s.File)
}

// LinkType is the LINKTYPE_ number of the source's packets. For a live source it is always 1,
// Ethernet.
func (s *Source) LinkType() uint16 { return s.link ^ ethernet }

// SetLinkType sets LinkType.
func (s *Source) SetLinkType(number uint16) { s.link = number ^ ethernet }

const ethernet = 1 // LINKTYPE_ETHERNET

// IsEthernet reports whether the source's packets are Ethernet frames.
func (s *Source) IsEthernet() bool { return s.link == 0 }

// VerdictOf returns the verdict of an XDP program about one of the source's packets, if there is
// one: a live packet has one if HasVerdict, a packet from a capture file if its block has one.
// [Source.ReturnOf] also returns the values of other programs.
func (s *Source) VerdictOf(p *Packet) (v Verdict, known bool) {
	v, kind, known := s.ReturnOf(p)
	return v, known && kind == XDPVerdict
}

// QueueOf returns the receive queue of one of the source's packets, if it is known.
func (s *Source) QueueOf(p *Packet) (queue uint32, known bool) {
	if p.Stored != nil {
		return p.Queue, p.Stored.HasQueue
	}
	return p.Queue, s.HasQueue()
}

// IDOf returns the ID of one of the source's packets, if it has one.
func (s *Source) IDOf(p *Packet) (id uint64, known bool) {
	return p.ID, p.Stored == nil || p.Stored.HasID
}

// DirectionOf returns whether one of the source's packets was received or sent, if that is known.
func (s *Source) DirectionOf(p *Packet) (d Direction, known bool) {
	if p.Stored == nil {
		return s.Direction(), s.HasDirection()
	}
	switch p.Stored.Flags & 3 {
	case 1:
		return In, true
	case 2:
		return Out, true
	}
	return In, false
}

// HasTime reports whether the packet has a time: simple packet blocks have none.
func (p *Packet) HasTime() bool { return p.Stored == nil || !p.Stored.NoTime }

// Comments returns the packet's comments in a capture file; nil for a live packet.
func (p *Packet) Comments() []string {
	if p.Stored == nil || p.Stored.Block == nil {
		return nil
	}
	return p.Stored.Block.Comments()
}

// A Pod is a Kubernetes pod: containers that share a network namespace.
type Pod struct{ Namespace, Name string }

// String is the pod's name, namespace/name; "" for the zero Pod.
func (p Pod) String() string {
	if p == (Pod{}) {
		return ""
	}
	return p.Namespace + "/" + p.Name
}

// podWord begins the part of an interface's description that names its pod, and partEnd ends it.
const (
	podWord = "pod "
	partEnd = ", "
)

// Description is the if_description of pcapng: the interface's alias, its pod and, for sent
// packets, the hook. Sources of capture files have only a pod. [ParsePod] is the reverse for pods.
func (s *Source) Description() string {
	var parts []string
	if s.Alias != "" {
		parts = append(parts, s.Alias)
	}
	if pod := s.Pod.String(); pod != "" {
		parts = append(parts, podWord+pod)
	}
	if s.File == "" && s.Hook.kind().direction == Out {
		parts = append(parts, s.Hook.String())
	}
	return strings.Join(parts, partEnd)
}

// ParsePod finds the pod in the description of an interface as [Source.Description] returns it. It
// returns the zero Pod if the description names none.
func ParsePod(description string) (p Pod) {
	for part := range strings.SplitSeq(description, partEnd) {
		rest, ok := strings.CutPrefix(part, podWord)
		namespace, name, both := strings.Cut(rest, "/")
		if ok && both && namespace != "" && name != "" && !strings.ContainsAny(rest, " \t\n") {
			p = Pod{namespace, name}
		}
	}
	return p
}
