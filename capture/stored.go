package capture

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"

	"github.com/xdpcap/xdpcap/internal/pcapng"
)

// Stored is what a capture file says of a packet besides its Facts and bytes. An Input that reads
// files sets it in each Packet. It is valid as long as the packet.
type Stored struct {
	HasVerdict, HasQueue, HasID bool // Facts has them from the file

	NoTime bool // the file has no time for the packet, and that in Facts is the previous packet's

	// Flags are the packet's flags as epb_flags of pcapng has them: in the two lowest bits the
	// direction, 1 = received, 2 = sent, 0 = not known. 0 = the file has none.
	Flags uint32

	// Block is the packet's block in the file; nil = the file has no blocks.
	Block StoredBlock
}

// A StoredBlock is the block of a packet in a capture file. Its type is the Input's own, by which
// an output for the blocks of this Input finds what it copies.
type StoredBlock interface {
	// Comments returns the comments of the packet; nil = it has none.
	Comments() []string
}

// Files are the capture files that an Input reads, for an [Encoder].
type Files interface {
	// AppendHeader appends the pcapng section for packets of all files, which application writes.
	AppendHeader(b []byte, application string) []byte

	// IsUnlimited tells whether interfaces are written with the snapshot length 0, no limit. That
	// is so where packets of several files come together: libpcap refuses a file whose interfaces
	// differ in it, and those of an interface that is described later are not known when the first
	// is written. It is also so for a pcap file, which may have packets that are longer than its
	// header says, and libpcap refuses those in pcapng.
	IsUnlimited() bool
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
func (s *Source) LinkType() uint16 { return s.link ^ pcapng.Ethernet }

// SetLinkType sets LinkType.
func (s *Source) SetLinkType(number uint16) { s.link = number ^ pcapng.Ethernet }

// IsEthernet tells whether the source's packets are Ethernet frames.
func (s *Source) IsEthernet() bool { return s.link == 0 }

// VerdictOf returns the verdict of one of the source's packets, if it is known. For a live packet
// HasVerdict decides that; for one from a capture file, the file's packet block.
func (s *Source) VerdictOf(p *Packet) (v Verdict, known bool) {
	if p.Stored != nil {
		return p.Verdict, p.Stored.HasVerdict
	}
	return p.Verdict, s.HasVerdict()
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
	switch p.Stored.Flags & pcapng.DirectionMask {
	case pcapng.Inbound:
		return In, true
	case pcapng.Outbound:
		return Out, true
	}
	return In, false
}

// HasTime tells whether the packet has a time: simple packet blocks have none.
func (p *Packet) HasTime() bool { return p.Stored == nil || !p.Stored.NoTime }

// Comments returns the packet's comments in a capture file; nil for a live packet.
func (p *Packet) Comments() []string {
	if p.Stored == nil || p.Stored.Block == nil {
		return nil
	}
	return p.Stored.Block.Comments()
}

// fields tells which options the packet's block has.
func (s *Stored) fields(hash HashKind) (f pcapng.Fields) {
	for _, field := range []struct {
		has bool
		is  pcapng.Fields
	}{{s.HasVerdict, pcapng.HasVerdict}, {s.HasQueue, pcapng.HasQueue}, {s.HasID, pcapng.HasID}, {hash == ToeplitzHash, pcapng.HasHash}} {
		if field.has {
			f |= field.is
		}
	}
	return f
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

// ParsePod finds the pod in the description of an interface as [Encoder.Describe] writes it. It is
// the zero Pod if none is named.
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

// A Name is the name of an address.
type Name struct {
	Address netip.Addr
	Name    string
}
