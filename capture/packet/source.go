package packet

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
)

// A Source is where packets come from: one hook on one interface, or a hook map.
type Source struct {
	Name    string // of the interface, or the hook map's path
	Hook    Hook
	Mode    Mode    // at XDP: where the kernel runs the sampling program
	Sampler Program // the program that samples

	// CardMetadata are the kinds of metadata that the sampling program requests from the card:
	// timestamp, hash, vlan_tag; nil = none.
	CardMetadata []string

	Target   Program     // at Entry and Exit: the traced program; or PROGRAM/FUNCTION, see TracesFunction
	TargetAt TargetPlace // where the target runs

	// ReasonText, at Exit or with HasExitFacts, returns the name of a Facts.Reason of the target,
	// by the target's own types; nil = its reasons are not read.
	ReasonText func(Reason) string

	// AwaitsExit, at Entry, means that packets are chosen by facts of the program's exit, such as
	// the verdict; packets whose exit was not seen are Undecided. HasExitFacts means that only
	// entries are recorded, and that they have these facts: verdict, run time, outlet and reason.
	AwaitsExit, HasExitFacts bool

	// Attached is, at Ingress and Egress, how the sampling program is attached: "tcx", or "clsact"
	// with the number of other filters that run before it, if any. NetAdmin means that detaching
	// needs CAP_NET_ADMIN, as with clsact.
	Attached string
	NetAdmin bool

	// Arrival numbers the interfaces that Options.Patterns have found, those whose hook
	// Options.GiveWay has changed, and the filters of Options.FilterChanges, from 1. Sources of one
	// interface with different Arrivals existed one after the other. 0 = none of these is set.
	Arrival uint32

	// Place is the index in Session.Sources, and Came numbers the sources in the order in which
	// they came, from 1. Both are 0 if the position in a list is the index.
	Place, Came int

	// The properties of the interface, which are all zero for a hook map.
	Index  int              // in its network namespace
	Alias  string           // as `ip link set alias` has set it, or ""
	Driver string           // as `ethtool -i` names it, or ""
	MAC    net.HardwareAddr // nil where the link layer has none
	Speed  uint64           // bit/s; 0 = unknown
	Pod    Pod              // by Options.PodOf, or from the capture file; the zero Pod = none

	// The properties of an interface in a capture file. Its Index numbers the distinct interface
	// names in the files that are read, from 1.
	File     string     // the file's name; "" = the source is live
	SnapLen  uint32     // bytes kept of each packet; 0 = no limit. A live source has it in Options
	Netmask  net.IPMask // of IPv4; nil = it is not in the file
	Position int        // among the interfaces of its section, from 0
	Filter   string     // the expression that chose its packets; "" = it is not known
	link     uint16     // LinkType ^ ethernet, so that the zero value is Ethernet
}

// HasVerdict reports whether the source's packets have a verdict.
func (s *Source) HasVerdict() bool { return s.Hook.kind().hasVerdict || s.HasExitFacts }

// TracesFunction reports whether a function of a program is traced instead of the whole program. It
// need not run for each packet.
func (s *Source) TracesFunction() bool { return strings.Contains(s.Target.Name, "/") }

// HasDirection reports whether Direction holds for all of the source's packets.
func (s *Source) HasDirection() bool { return !s.Hook.kind().anyWay && s.TargetAt != AtTC }

// InFragments reports whether the source may have packets in several buffers. With TransportRing
// these come through perf's rings.
func (s *Source) InFragments() bool { return s.Hook.kind().inFragments }

// Direction is In or Out: whether the source's packets were received or sent; see HasDirection.
func (s *Source) Direction() Direction {
	if s.TargetAt == AtTCEgress {
		return Out
	}
	return s.Hook.kind().direction
}

// HasQueue reports whether the queue of the source's packets is known. At egress it is not: the
// kernel chooses the queue of a sent packet later.
func (s *Source) HasQueue() bool {
	return s.Hook.kind().hasQueue && s.TargetAt != AtTCEgress && s.TargetAt != AtTC
}

// Label is the source's name in files and messages: eth0, eth0@egress, eth0:program@fentry, or the
// hook map's path.
func (s *Source) Label() string {
	kind := s.Hook.kind()
	switch {
	case s.Name == "":
		return s.fileLabel()
	case kind.traces:
		return s.Name + ":" + s.Target.Name + kind.suffix
	}
	return s.Name + kind.suffix
}

// String is the source's Label.
func (s Source) String() string { return s.Label() }

// A Program is a BPF program that the kernel has loaded.
type Program struct {
	ID   uint32
	Name string // from BTF if the program has it, else the kernel's, cut after 15 characters
}

func (p Program) String() string {
	if p.Name == "" {
		return fmt.Sprintf("with id %d", p.ID)
	}
	return fmt.Sprintf("%s (id %d)", p.Name, p.ID)
}

// A TargetPlace is where a traced program runs.
type TargetPlace int

const (
	AtXDP       TargetPlace = iota // at the XDP hook, or in a devmap or cpumap
	AtTCIngress                    // where the stack receives packets
	AtTCEgress                     // where it sends them
	AtTC                           // at both, or it is not known at which of them
)

var targetPlaceNames = [...]string{"XDP", "tc ingress", "tc egress", "tc"}

func (p TargetPlace) String() string { return targetPlaceNames[p] }

// A Mode is where in the receive path the kernel runs an XDP program.
type Mode int

const (
	Auto    Mode = iota // native, or generic if the driver has no native XDP
	Native              // in the driver, before the kernel has built a socket buffer
	Generic             // in the kernel's stack: every driver has it, at a lower rate
	Offload             // on the network card; other programs can run there, ours cannot
)

var modeNames = [...]string{"auto", "native", "generic", "offload"}

// String is the mode's name in lower case, or its number if it has none.
func (m Mode) String() string {
	if m < 0 || int(m) >= len(modeNames) {
		return strconv.Itoa(int(m))
	}
	return modeNames[m]
}

// ParseMode reads the name of a mode that a program can be attached in: "auto", "native" or
// "generic".
func ParseMode(s string) (Mode, error) {
	for m := Auto; m <= Generic; m++ {
		if s == modeNames[m] {
			return m, nil
		}
	}
	return Auto, fmt.Errorf("XDP mode %q: must be auto, native or generic", s)
}

// A Direction is which packets of an interface are captured.
type Direction int

const (
	In    Direction = iota // the received packets
	Out                    // the sent packets
	InOut                  // both, as separate sources
)

var directionNames = [...]string{"in", "out", "inout"}

func (d Direction) String() string {
	if d < 0 || int(d) >= len(directionNames) {
		return fmt.Sprintf("direction %d", int(d))
	}
	return directionNames[d]
}

// ParseDirection reads a direction's name: "in", "out" or "inout".
func ParseDirection(s string) (Direction, error) {
	if i := slices.Index(directionNames[:], s); i >= 0 {
		return Direction(i), nil
	}
	return 0, fmt.Errorf("direction %q: must be in, out or inout", s)
}
