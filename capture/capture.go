// Package capture samples packets at the XDP hook of network interfaces and writes them to capture
// files, with an exact account of what is missing from them.
//
// [Open] attaches a program that lets every packet pass and sends a copy of it to user space, and
// returns a [Session]. [Session.Run] moves these copies, in the order of their time stamps, into
// outputs such as a [File], which makes pcapng and pcap files; [Session.Packets] hands them to a
// range loop instead. The kernel detaches the program when the session ends or the process does,
// however it ends.
//
// Loss is a number, never an error: see [Account].
//
// The package needs Linux 6.1 on a little-endian machine, and CAP_BPF, CAP_NET_ADMIN and
// CAP_PERFMON; to trace a running program CAP_SYS_ADMIN too, and so does TransportPerf where
// kernel.perf_event_paranoid is 3, as in Debian; for promiscuous mode CAP_NET_RAW. Once Open has
// returned none of them is needed any more, except that a Session then may not see some of what
// makes it blind: see ErrBlind. CaptureInfo and the pcap format use github.com/gopacket/gopacket.
// Until version 1 of the module names may still change.
package capture

import (
	"net"

	"golang.org/x/net/bpf"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

//go:generate go tool bpf2go -target bpfel -type ring -type account -type class -type flow sampler ../bpf/sampler.c

// MaxSnapLen is how many bytes of a packet can be captured at most, by the transport that carries
// most: [Transport.MaxSnapLen] is that of each.
const MaxSnapLen = int(samplerLimitRING_MAX_SAMPLE_SIZE)

// Bounds and default of [Options.Buffer], in bytes.
const (
	MinBuffer     = 128 << 10 // room for one of the longest records, whatever else is in there
	MaxBuffer     = 1 << 30
	DefaultBuffer = 8 << 20
)

// Options say what to capture. The zero value of each field is its default.
type Options struct {
	Interfaces []string // names in the calling thread's network namespace; at least one
	Mode       Mode     // Auto

	// Direction says which packets of the interfaces are captured. What is sent is seen at their
	// egress: as the stack hands it over, before it is cut into segments and has its checksums.
	// What an XDP program sends does not pass there. Of all the packets that are sent none has a
	// verdict or a queue, so that Verdicts choose among the others only.
	Direction Direction // In

	// HookMap, in place of Interfaces, is the path of a pinned program array with a slot for each
	// verdict, into which an XDP program makes a tail call before it returns: the convention of
	// github.com/cloudflare/xdpcap. If the process is killed, the slots stay filled until the next
	// session.
	HookMap string

	// Where an interface already runs an XDP program, that program is traced and stays as it is.
	// Hooks are Entry, Exit or both; nil = Entry. Targets choose which program to trace, where a
	// libxdp dispatcher runs several: names, ids, or "all". An id may also be that of an XDP
	// program elsewhere, such as in a devmap: of its packets those from the interface are captured.
	Hooks   []Hook
	Targets []string

	// Verdicts keep, at Exit and TailCall, only packets with one of them, at most 16 different
	// ones; the others are FilteredOut.
	Verdicts []Verdict

	// FilterAtExit applies the filter to the packets that come out of the traced program, instead
	// of those that go in. At a hook map the filter always sees them so.
	FilterAtExit bool

	// Filter is a pcap-filter(7) expression: package filter says what it understands. Packets that
	// it does not match are FilteredOut. With VLANAware it also matches behind one or two VLAN
	// tags.
	Filter    string
	VLANAware bool

	// FilterProgram is a classic BPF program that is used instead of Filter. Filter is then only
	// written to the file.
	FilterProgram []bpf.RawInstruction

	// Stamp is the clock by which packets are stamped. With HostLowprecStamp and TransportRing all
	// packets of a NAPI poll on a CPU have the time of its first one; outside polls, all of a tick
	// of the kernel's clock, which is 1 to 10 ms. Where the kernel does not tell when a poll ends,
	// which is a Notice, and with TransportPerf they have the time at which the tick began.
	//
	// Facts.CardTime has the card's stamps. They need Linux 6.7, a driver that tells them to XDP
	// programs, a session's own program in native mode, and for AdapterStamp the right to read
	// /dev/ptpN. While the session lasts the card stamps all packets; if the process is killed, it
	// goes on to do so. With TransportRing, Facts.Time of these packets is as with
	// HostLowprecStamp, if the kernel tells when a poll ends.
	Stamp Stamp

	// VLANRestore puts VLAN tags that the card has taken off back into the packets, where the
	// driver tells them to XDP programs (Linux 6.8) and the session has a program of its own in
	// native mode. Filter sees them then.
	VLANRestore VLANRestore

	// Hash asks for each packet's hash where the driver tells it, also where software makes it.
	// Otherwise the card's hash comes along where the driver is asked for something else.
	Hash bool

	// SnapLen is how many bytes of each packet are kept. 0 is the most that the transport carries,
	// and so is, with a Notice, whatever is above that.
	SnapLen int
	Count   uint64 // end after this many packets; 0 = no limit

	// The kernel decides which packets are kept, of those that Filter and Verdicts leave. Packets
	// that one of these options passes over are NotSampled. Where both Entry and Exit are recorded,
	// the decision at the entry holds for the exit; where only exits are, it is made about the
	// packet that comes out. The options combine, in this order. A flow is both directions of a
	// conversation: IP addresses, protocol and ports inside up to two VLAN tags, without ports for
	// fragments; MAC addresses for what is not IP. First counts at each interface and program by
	// itself, and remembers the 131,072 flows that were active last. MaxRate is for all CPUs
	// together. After a quiet second, a burst of as many packets as one second allows may be kept.
	SampleFlows uint32 // keep all packets of one flow in SampleFlows; 0 or 1 = of every flow
	First       uint64 // keep the first packets of each flow; 0 = all
	Sample      uint32 // keep one packet, at random, of every Sample on a CPU; 0 or 1 = every packet
	MaxRate     uint64 // keep so many packets per second; 0 = all; up to 1e9

	// SampleVerdicts, in place of Sample, keep one packet of every so many that have a verdict, and
	// all packets with other verdicts. They are for Exit without Entry, and for hook maps, because
	// the verdict must be known when a packet is chosen. Verdicts of the kernel can have a number.
	SampleVerdicts map[Verdict]uint32

	// Adaptive, in place of Sample, keeps every packet while that can be done, and else one of as
	// many as are needed for the reader, the rings and the outputs to keep up, by rates that change
	// while the session runs: see Facts.Weight. MaxRate is what it aims at then, and for a moment
	// more may be kept. Packets may be lost for a second or two, until the rate has followed.
	Adaptive bool

	// Sink drops every packet after sampling. It is for interfaces that receive only copies of
	// traffic: anything that talks through such an interface is cut off while the session lasts.
	Sink bool

	// Promiscuous sets the interfaces to promiscuous mode while the session captures. An XDP
	// program sees only packets that the interface takes, and without that mode those are packets
	// to its own, broadcast and multicast MAC addresses. A host's own XDP program sees them, too.
	Promiscuous Promiscuity

	// Transport is how packets come from the kernel.
	Transport Transport

	// Buffer is the size of each CPU's ring in bytes, rounded up to a power of two. The rings of
	// all CPUs take at most a quarter of the memory that is available when the session begins, and
	// those of TransportPerf at most what this user may lock: a Buffer that asks for more is an
	// error. 0 = DefaultBuffer or, with a Notice, as much less as needed.
	Buffer int

	// Immediate hands over each packet within about a millisecond, at the price of a wake-up for
	// each. Otherwise packets are handed over in groups, after 50 ms at the latest.
	Immediate bool

	// Companions, if not nil, returns the programs that run within the session's own at a source.
	// Of a program that is traced it is asked for both its entry and its exit, whichever of them is
	// recorded. An error is that of Open. There are none at a hook map.
	Companions func(Source) (Companions, error)

	// Notice, if not nil, is told what a user should know at once although the session goes on. It
	// is called by one goroutine at a time, between Open and the end of Run or Close, and must
	// return without waiting for anything.
	Notice func(error)
}

// A Source is where packets come from: one hook on one interface, or a hook map.
type Source struct {
	Name    string // of the interface, or the hook map's path
	Hook    Hook
	Mode    Mode     // at XDP: where the kernel runs the sampling program
	Sampler Program  // the program that samples
	Asked   []string // what it asks the card for: timestamp, hash, vlan_tag; nil = nothing
	Target  Program  // at Entry and Exit: the program that is traced

	// TargetOwner is the other process of xdpcap that has attached that program, as `process 17
	// (xdpcap -i eth0)`, or "" where it is nobody's who is known.
	TargetOwner string

	// Attached is, at Egress, how the sampling program is attached: "tcx", or "clsact", with how
	// many filters of others come before if there are any. NetAdmin says that it takes
	// CAP_NET_ADMIN to detach, as with clsact.
	Attached string
	NetAdmin bool

	// The properties of the interface, which are all zero for a hook map.
	Index  int              // in its network namespace
	Alias  string           // as `ip link set alias` has set it, or ""
	Driver string           // as `ethtool -i` names it, or ""
	MAC    net.HardwareAddr // nil where the link layer has none
	Speed  uint64           // bit/s; 0 = unknown

	// The properties of an interface in a capture file, whose Index is its place among the names of
	// interfaces in the files that are read, from 1.
	File    string // the file's name; "" = the source is live
	SnapLen uint32 // bytes kept of each packet; 0 = no limit. Live, that is in Options
	place   int    // among the interfaces of its section
	link    uint16 // LinkType, with 0 and Ethernet exchanged
}

// newSource describes a hook on an interface.
func newSource(ifi xdp.Interface, hook Hook) Source {
	return Source{
		Name:   ifi.Name,
		Hook:   hook,
		Index:  ifi.Index,
		Alias:  ifi.Alias,
		Driver: ifi.Driver,
		MAC:    ifi.MAC,
		Speed:  ifi.Speed,
	}
}

// HasVerdict tells whether the source's packets have a verdict.
func (s *Source) HasVerdict() bool { return s.Hook.kind().hasVerdict }

// Direction is In or Out: whether the source's packets were received or sent.
func (s *Source) Direction() Direction { return s.Hook.kind().direction }

// HasQueue tells whether the queue of the source's packets is known. That in which a packet will
// be sent is chosen after egress.
func (s *Source) HasQueue() bool { return s.Hook.kind().hasQueue }

// Label names the source as files and messages do: eth0, eth0@egress, eth0:program@fentry, or the
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

// A Program is a BPF program that the kernel has loaded.
type Program struct {
	ID   uint32
	Name string
}

func (p Program) String() string { return xdp.Program(p).String() }

// A Mode is where in the receive path the kernel runs the sampling program.
type Mode int

const (
	Auto    = Mode(xdp.Auto)    // native, or generic where the driver has no native XDP
	Native  = Mode(xdp.Native)  // in the driver
	Generic = Mode(xdp.Generic) // in the kernel's stack: every driver has it, at a lower rate
)

func (m Mode) String() string { return xdp.Mode(m).String() }

// ParseMode reads the name of a mode: "auto", "native" or "generic".
func ParseMode(s string) (Mode, error) {
	m, err := xdp.ParseMode(s)
	return Mode(m), err
}

// A Verdict is what an XDP program returns: enum xdp_action of include/uapi/linux/bpf.h, or any
// other number.
type Verdict uint32

const (
	Aborted  = Verdict(xdp.Aborted)
	Drop     = Verdict(xdp.Drop)
	Pass     = Verdict(xdp.Pass)
	Tx       = Verdict(xdp.Tx)
	Redirect = Verdict(xdp.Redirect)
)

// String is the verdict's name in lower case, or its number where the kernel has no such verdict.
func (v Verdict) String() string { return xdp.Verdict(v).String() }

// ParseVerdict reads a verdict's name, such as "drop" or "XDP_DROP", or its number.
func ParseVerdict(s string) (Verdict, error) {
	v, err := xdp.ParseVerdict(s)
	return Verdict(v), err
}
