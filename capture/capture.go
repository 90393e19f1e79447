// Package capture samples packets at the XDP hook of network interfaces and writes them to capture
// files, with an exact account of the packets that are missing from them.
//
// [Open] attaches a program that lets every packet pass and sends a copy to user space, and returns
// a [Session]. [Session.Run] moves these copies, in the order of their time stamps, into outputs:
// files (package file), connections (package stream), memory until something happens (package
// recorder), or any other [Output]. [Session.Packets] hands them to a range loop instead. The
// kernel detaches the program when the session or the process ends, even if the process is killed.
//
// This prints each packet's time, its length on the wire, how much of it was kept, its receive
// queue and its source, which is an index into s.Sources(), until ctx is done:
//
//	s, err := capture.Open(capture.Options{Interfaces: []string{"eth0"}, SnapLen: 128})
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer s.Close()
//	for p, err := range s.Packets(ctx) {
//		if err != nil {
//			log.Fatal(err)
//		}
//		fmt.Println(time.Unix(0, p.Stamp()), p.WireLen, len(p.Data), p.Queue, p.Source)
//	}
//	accounts, err := s.Accounts()
//	fmt.Println(accounts.Total(), err) // 7 seen = 0 filtered out + 0 not sampled + ...
//
// The fields of a packet are those of [packet.Packet] and [packet.Facts]. Loss is a number, never
// an error: see [Account].
//
// The package needs Linux 6.1 on a little-endian machine, and CAP_BPF, CAP_NET_ADMIN and
// CAP_PERFMON. Tracing a running program also needs CAP_SYS_ADMIN, and so does TransportPerf if
// kernel.perf_event_paranoid is 3, as in Debian. Promiscuous mode needs CAP_NET_RAW. After Open has
// returned, a Session needs no capabilities; but without CAP_SYS_ADMIN it may not notice some of
// the causes that make it blind: see ErrBlind.
//
// A program that imports the packages of this module gets the modules that these need, but no
// modules for the command alone, such as cobra or Prometheus's client: Go omits these from its
// go.mod and go.sum. Packet.CaptureInfo uses github.com/gopacket/gopacket. Names may still change
// until version 1 of the module.
package capture

import (
	"net/netip"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/net/bpf"

	"github.com/xdpcap/xdpcap/capture/internal/ring"
	"github.com/xdpcap/xdpcap/filter"
)

// A Name is the name of an address.
type Name struct {
	Address netip.Addr
	Name    string
}

// MaxSnapLen is the largest snaplen that any transport can carry, in bytes. [Transport.MaxSnapLen]
// is that of one transport.
const MaxSnapLen = ring.MaxSnapLen

// Bounds and default of [Options.Buffer], in bytes.
const (
	MinBuffer     = ring.MinSize // always has room for one of the longest records
	MaxBuffer     = ring.MaxSize
	DefaultBuffer = ring.DefaultSize
)

// Options define the packets to capture. The zero value of each field is its default.
type Options struct {
	Interfaces []string // names in the calling thread's network namespace; at least one
	Mode       Mode     // Auto
	At         At       // AtXDP

	// Patterns, in addition to Interfaces or instead of them, are patterns of names for path.Match:
	// "veth*", or "*" for all. The session captures on each interface that is up and has such a
	// name, also on interfaces that come up later, until they go. Except are patterns of names to
	// omit. Each interface that comes is a new source, even if an earlier one had the same name:
	// see Description.More. A session has at most 1024 programs attached at a time, and 65,535
	// sources in its outputs, including sources that have gone, unless each output is a
	// [Forgetter]. It keeps the rights of Open. HookMap, Sink, Promiscuous, Companions and card
	// stamps need Interfaces instead. With StackDrops the only pattern is "*", without Interfaces
	// and Except: one source, "any", has the packets that the stack throws away at all interfaces
	// of the namespace (see Facts.Device), but not packets that are lost at XDP.
	Patterns, Except []string

	// GiveWay lets others attach an XDP program to an interface where the session runs its own. The
	// kernel refuses their first attempt; then the session detaches its program, and never attaches
	// one there again: it captures at Ingress, or traces the program that runs. Each change makes a
	// new source, as with Patterns, and a Notice. If an interface goes, the session waits for it to
	// come again.
	GiveWay bool

	// Direction is which packets of the interfaces are captured. Sent packets are captured at
	// egress, as the stack passes them on: before segmentation and before checksums are filled in.
	// Packets that an XDP program sends do not pass egress. Sent packets have no verdict and no
	// queue, so Verdicts and SlowerThan select only among received ones.
	Direction Direction // In

	// HookMap, instead of Interfaces, is the path of a pinned program array with a slot for each
	// verdict. An XDP program makes a tail call into it before it returns: the convention of
	// github.com/cloudflare/xdpcap. If the process is killed, the slots stay filled until the next
	// session.
	HookMap string

	// Where an interface already runs an XDP program, that program is traced and stays as it is.
	// Hooks are Entry, Exit or both; nil = Entry. Targets choose which program to trace where a
	// libxdp dispatcher runs several: names, ids, or "all". An id may also be that of an XDP
	// program elsewhere, such as in a devmap: only its packets from the interface are captured.
	// Names and ids may be those of programs at tc: of tcx, or in a filter of clsact. A function of
	// a program is NAME/FUNCTION.
	Hooks   []Hook
	Targets []string

	// Verdicts, at most 16, keep only packets with one of these verdicts; other packets are
	// FilteredOut. They work at Exit and TailCall, and at Entry: there a packet waits in the kernel
	// for its exit, and is FilteredOut and Undecided if that is not seen. If Hooks are Entry alone,
	// its packets have the verdict, the outlet, the run time and the reason of their exits. A
	// packet that waited has only the bytes of its first buffer, at most 65,535.
	Verdicts []Verdict

	// TCVerdicts are the same for programs at tc, where numbers stand for other verdicts.
	TCVerdicts []Verdict

	// SlowerThan, at most MaxRunTime, keeps only packets for which the traced program ran at least
	// so long: see Facts.RunTime. Other packets are FilteredOut. It works at Exit, and at Entry as
	// Verdicts do. 0 = all packets.
	SlowerThan time.Duration

	// StackDrops, instead of the packets at the XDP hook, captures the lost packets of the
	// interfaces: packets that the network stack throws away, received or to be sent, with the
	// reason and the location in the kernel (see Facts.Location), and, as separate sources, packets
	// that an XDP program drops or aborts, or that the kernel fails to redirect for it. A packet
	// belongs to an interface if it came in there, was to go out there, or was lost at a device
	// above, such as a VLAN. If an XDP program cannot be traced, there is a notice. Harmless
	// losses, such as packets for other hosts, are not Seen. Reasons, at most 64, are names such as
	// NO_SOCKET: other packets are FilteredOut, and no program is traced, because XDP gives no
	// reasons.
	StackDrops bool
	Reasons    []string

	// ReasonMap is the per-CPU array into which the traced program writes why it drops a packet:
	// the path where it is pinned, with a slash in it, its id or its name. Its values have 32 bits.
	// Packets at Exit with the verdict Drop or Aborted then have a Facts.Reason. With several
	// Targets, a name may be that of a map of each. Hooks must have Exit, unless StackDrops is set,
	// or Entry has the reasons: see Verdicts. Without StackDrops, Reasons keep only packets with
	// one of these reasons of the program, by their names in the type of the map's values, or their
	// numbers; they work as Verdicts do.
	ReasonMap string

	// FilterAtExit applies the filter to packets as they leave the traced program, instead of as
	// they enter it. At a hook map the filter always sees packets as they leave.
	FilterAtExit bool

	// Filter is a pcap-filter(7) expression; package filter documents the supported part. Packets
	// that it does not match are FilteredOut. With VLANAware it also matches packets with one or
	// two VLAN tags.
	Filter    string
	VLANAware bool

	// FilterSets are the sets that Filter may name: "host in @blocked" is in FilterSets["blocked"].
	// They must be those of package filter/set, whose maps in the kernel all sources share. The
	// caller closes them after the session.
	FilterSets map[string]filter.Set

	// VXLANPort is a UDP port at which the words vxlan and inner of the filter expect VXLAN, too;
	// 0 = none. They always do at 4789, and inner at 8472.
	VXLANPort uint16

	// Fragments lets the filter decide about a datagram of IP as a whole: later fragments, which
	// have no ports, get the decision about their first one. If the first one was not seen, or is
	// forgotten, a fragment is decided alone, and is Undecided if it does not match. At most 16,384
	// datagrams are remembered.
	Fragments bool

	// FilterChanges allows Session.SetFilter. The session then keeps the rights of Open, to load
	// programs. Interfaces or Patterns only; not with Companions.
	FilterChanges bool

	// FilterProgram is a classic BPF program to use instead of Filter. Filter is then only written
	// to the file.
	FilterProgram []bpf.RawInstruction

	// Stamp is the clock that stamps packets. With HostLowprecStamp and TransportRing all packets
	// of a NAPI poll on a CPU have the time of its first packet; outside polls, all packets of a
	// tick of the kernel's clock (1 to 10 ms) have the time of its first packet. With
	// TransportPerf, and on kernels that do not report the end of a poll (there is a Notice),
	// packets have the time at which the tick began.
	//
	// Facts.CardTime has the card's stamps. They need Linux 6.7, a driver that gives them to XDP
	// programs, a session's own program in native mode, and for AdapterStamp the right to read
	// /dev/ptpN. While the session lasts the card stamps all packets; if the process is killed, the
	// card keeps doing so. With TransportRing, Facts.Time of these packets is as with
	// HostLowprecStamp, if the kernel reports the end of a poll.
	Stamp Stamp

	// VLANRestore puts VLAN tags that the card has stripped back into the packets. The driver must
	// give the tags to XDP programs (Linux 6.8), and the session must have its own program in
	// native mode. Filter then sees the tags.
	VLANRestore VLANRestore

	// Hash requests each packet's hash from the driver, even if software computes it. Without Hash,
	// a card's hash is still recorded if other metadata is requested from the driver.
	Hash bool

	// SnapLen is how many bytes of each packet are kept. 0 means the transport's MaxSnapLen. A
	// larger value is lowered to that, with a Notice.
	SnapLen int

	// HeadersOnly also cuts each packet in the kernel, so that only the first Payload bytes of its
	// payload get here. These are headers: Ethernet's with up to two VLAN tags, ARP, IPv4's, IPv6's
	// with its extension headers, and after those the one of TCP, UDP, UDP-Lite, ICMP, ICMPv6,
	// IGMP, SCTP, DCCP, GRE or ESP. A header that cannot be read counts as the shortest possible. A
	// VLAN tag that is put back does not count.
	HeadersOnly bool
	Payload     int // bytes; needs HeadersOnly

	Count uint64 // end after this many packets; 0 = no limit

	// The following options sample, in the kernel, the packets that Filter, Verdicts and SlowerThan
	// keep. Packets that one of them skips are NotSampled. If both Entry and Exit are recorded, the
	// decision at the entry holds for the exit; if only exits are, or entries wait for them (see
	// Verdicts), it is made about the packet as it leaves. The options combine, in this order. A
	// flow is both directions of a conversation: IP addresses, protocol and ports inside up to two
	// VLAN tags, without ports for fragments; MAC addresses for packets that are not IP. First
	// counts separately at each interface and program, and remembers the 131,072 most recently
	// active flows. MaxRate is for all CPUs together. After a quiet second, a burst of up to one
	// second's packets may be kept.
	SampleFlows uint32 // keep all packets of one flow in SampleFlows; 0 or 1 = all flows
	First       uint64 // keep the first packets of each flow; 0 = all
	Sample      uint32 // keep one random packet of every Sample on a CPU; 0 or 1 = all packets
	MaxRate     uint64 // keep at most this many packets per second, up to 1e9; 0 = all

	// SampleVerdicts, instead of Sample, has a sampling rate for each verdict: one packet of this
	// many is kept. All packets with other verdicts are kept. It works at Exit, for hook maps, and
	// at Entry as Verdicts do. Only the kernel's own verdicts can have a rate.
	SampleVerdicts map[Verdict]uint32

	// Adaptive, instead of Sample, keeps every packet while the reader, the rings and the outputs
	// keep up. Otherwise it samples at a rate that changes while the session runs: see
	// Facts.Weight. MaxRate is then a target that may be exceeded for a moment. When the load
	// rises, packets may be lost for a second or two until the rate has adapted.
	Adaptive bool

	// Sink drops every packet after sampling. It is for interfaces that receive only copies of
	// traffic: anything that talks through such an interface is cut off while the session lasts.
	Sink bool

	// Promiscuous sets the interfaces to promiscuous mode while the session captures. An XDP
	// program sees only packets that the interface accepts: without that mode, packets to its own,
	// broadcast and multicast MAC addresses. The host's own XDP program then sees the additional
	// packets, too.
	Promiscuous Promiscuity

	// Transport selects how packets come from the kernel.
	Transport Transport

	// Buffer is the size of each CPU's ring in bytes, rounded up to a power of two. The rings of
	// all CPUs together may take a quarter of the memory that is available when the session begins,
	// and those of TransportPerf also no more than this user may lock. A larger Buffer is an error.
	// 0 = DefaultBuffer, lowered to these limits with a Notice.
	Buffer int

	// Immediate hands over each packet within about a millisecond, at the price of a wake-up for
	// each. Otherwise packets are handed over in groups, after 50 ms at the latest.
	Immediate bool

	// Companions, if not nil, returns the programs that run inside the session's own at a source.
	// It is called for both the entry and the exit of a traced program, even if only one of them is
	// recorded. Open returns its error. A hook map has no companions.
	Companions func(Source) (Companions, error)

	// PodOf, if not nil, returns the Kubernetes pod that the interface with this index belongs to;
	// the zero Pod = none. Open calls it for each source.
	PodOf func(index int) Pod

	// Names are shown by readers of pcapng in place of addresses.
	Names []Name

	// Notice, if not nil, is called with facts that a user should know at once although the session
	// continues. One goroutine at a time calls it, from Open until Run or Close returns. It must
	// return without waiting for anything.
	Notice func(error)

	// Forgotten, if not nil, is called by Run when all outputs have forgotten a source.
	Forgotten func(source int)
}

// Promiscuity is whether an interface is set to promiscuous mode while a session captures there. In
// that mode it also accepts packets for other MAC addresses.
type Promiscuity int

const (
	PromiscuousAuto Promiscuity = iota // with Sink, if this process has the right
	PromiscuousOn                      // always; an error if this process has no right
	PromiscuousOff                     // never
)

// Companions are BPF programs of the caller that run inside those of a session, for every packet of
// a source, even a packet that is filtered out or not sampled. An interface has room for one XDP
// program only; companions can count there during a capture. They get the context of their program
// type, and their return value is ignored. Their type is that of the hook's program: ebpf.XDP at
// XDP, ebpf.SchedCLS at Ingress and Egress, ebpf.Tracing at Entry and Exit, with AttachTraceFEntry
// and AttachTraceFExit.
//
// Every instruction that loads from a map must have the map: see asm.Instruction.AssociateMap. The
// caller owns the maps; once Session.Run has returned, they no longer change. Two companions may
// have functions of the same name.
type Companions struct {
	// First run before the session's own code. At Exit they run for every packet of the traced
	// program, even if its entry was not seen.
	First []*ebpf.ProgramSpec

	// Last run after the session's own code; XDP, Ingress and Egress have none. At Exit they run
	// only for packets whose entry was seen: the packets of the source's account.
	Last []*ebpf.ProgramSpec
}

// hooksChange reports whether interfaces or their hooks come and go during the session.
func (o *Options) hooksChange() bool { return len(o.Patterns) > 0 && !o.StackDrops || o.GiveWay }

// sourcesChange reports whether sources come and go during the session.
func (o *Options) sourcesChange() bool { return o.hooksChange() || o.FilterChanges }

// hasWeights reports whether the weights of packets are known: the sampling rate alone determines
// them.
func (o *Options) hasWeights() bool { return o.First == 0 && (o.Adaptive || o.MaxRate == 0) }

// notice calls Notice, unless it or err is nil.
func (o *Options) notice(err error) {
	if o.Notice != nil && err != nil {
		o.Notice(err)
	}
}
