// Package capture samples packets at the XDP hook of network interfaces and writes them to capture
// files, with an exact account of what is missing from them.
//
// A [Session] attaches a program that lets every packet pass and sends a copy of it to user space;
// [Session.Read] returns these copies in the order of their time stamps, and a [Writer] puts them
// into a pcapng or pcap file. The kernel detaches the program when the session is closed or the
// process ends, however it ends.
//
// Loss is a number, never an error: see [Counters]. The package needs Linux 5.18 on a little-endian
// machine, and CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON.
package capture

import (
	"fmt"
	"time"

	"github.com/gopacket/gopacket"
	"golang.org/x/net/bpf"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

//go:generate go tool bpf2go -target bpfel -type sample -type account -type class sampler ../bpf/sampler.c

// MaxSnapLen is the most bytes of one packet that can be had: what one record of a perf ring holds.
const MaxSnapLen = int(samplerLimitMAX_SAMPLE_SIZE)

// Bounds and default of [Options.Buffer], in bytes.
const (
	MinBuffer     = 128 << 10 // room for one of the longest records, whatever else is in there
	MaxBuffer     = 1 << 30
	DefaultBuffer = 8 << 20
)

// A Mode is where in the receive path the kernel runs the sampling program.
type Mode = xdp.Mode

const (
	Auto    = xdp.Auto    // native, or generic where the driver has no native XDP
	Native  = xdp.Native  // in the driver
	Generic = xdp.Generic // in the kernel's stack: every driver has it, at a lower rate
)

// ParseMode reads the name of a mode: "auto", "native" or "generic".
func ParseMode(s string) (Mode, error) { return xdp.ParseMode(s) }

// ErrBusy is wrapped by Open's error where an XDP program was attached to an interface while Open was about to.
var ErrBusy = xdp.ErrBusy

// A Hook is where on an interface packets are sampled.
type Hook int

const (
	XDP      Hook = iota // at the XDP hook, by a program of the session's own: where no other runs
	Entry                // what goes into a program that runs there, by fentry
	Exit                 // what comes out of it, with its verdict, by fexit
	TailCall             // what a program hands to its hook map, with the verdict that it is about to return
)

var hookNames = [...]string{"xdp", "entry", "exit", "tail call"}

func (h Hook) String() string { return hookNames[h] }

// ParseHook reads the name of a hook that can be asked for: "entry" or "exit".
func ParseHook(s string) (Hook, error) {
	for _, h := range []Hook{Entry, Exit} {
		if s == hookNames[h] {
			return h, nil
		}
	}
	return 0, fmt.Errorf("hook %q: must be entry or exit", s)
}

// A Verdict is what an XDP program returns.
type Verdict = xdp.Verdict

const (
	Aborted  = xdp.Aborted
	Drop     = xdp.Drop
	Pass     = xdp.Pass
	Tx       = xdp.Tx
	Redirect = xdp.Redirect
)

// ParseVerdict reads a verdict's name, such as "drop", or its number.
func ParseVerdict(s string) (Verdict, error) { return xdp.ParseVerdict(s) }

// Options say what to capture. The zero value of each field is its default.
type Options struct {
	Interfaces []string // names in the calling thread's network namespace; at least one
	Mode       Mode     // Auto

	// HookMap, in place of Interfaces, is the path of a pinned program array with a slot for each verdict, into which an XDP
	// program makes a tail call before it returns: the convention of github.com/cloudflare/xdpcap. After a kill its slots
	// stay filled until the next session.
	HookMap string

	// Where an interface already runs an XDP program, that is traced and stays as it is. Hooks are Entry, Exit or
	// both; nil = Entry. Programs choose among several, behind a libxdp dispatcher: names, ids, or "all". An id may
	// also be that of an XDP program elsewhere, such as in a devmap: of its packets those from the interface.
	Hooks    []Hook
	Programs []string
	Verdicts []Verdict // at Exit, keep only packets with these; the others are FilteredOut. From 63 on all are one

	// FilterAtExit looks at the packets that come out, instead of those that go in.
	FilterAtExit bool

	// Filter is a pcap-filter(7) expression: package filter says what it understands. Packets that it does not
	// match are FilteredOut. With VLANAware it also matches behind one or two VLAN tags.
	Filter    string
	VLANAware bool

	// Program is a classic BPF program in the place of Filter, which then only stands in the file.
	Program []bpf.RawInstruction

	SnapLen int    // packet bytes kept; 0 = MaxSnapLen
	Count   uint64 // end after this many packets; 0 = no limit

	// Which packets are kept is decided in the kernel. What these pass over is NotSampled; they combine, in
	// this order. A flow is both directions of a conversation: IP addresses, protocol and ports inside up
	// to two VLAN tags, without ports for fragments; MAC addresses for what is not IP.
	SampleFlows uint32 // keep all packets of one flow in SampleFlows; 0 or 1 = of every flow
	First       uint64 // keep the first packets of each flow; 0 = all. Of 131,072 flows: the longest silent are forgotten
	Sample      uint32 // keep one packet, at random, of every Sample that a CPU receives; 0 or 1 = every packet
	MaxRate     uint64 // keep so many packets per second, all CPUs together, saved up for one second at most; 0 = all; up to 1e9

	// Sink drops every packet after sampling. For interfaces that receive only copies of traffic:
	// anything that talks through such an interface is cut off while the session lasts.
	Sink bool

	// Buffer is the size of each CPU's ring in bytes, rounded up to a power of two; 0 =
	// DefaultBuffer.
	Buffer int

	// Immediate hands over each packet within about a millisecond, at the price of a wake-up for
	// each. Otherwise packets are handed over in batches, after 50 ms at the latest.
	Immediate bool
}

// A Packet is one packet as the XDP hook saw it.
type Packet struct {
	// Data is the packet from its Ethernet header on, cut to the snapshot length. It is memory of
	// the ring and valid until the next call of Read.
	Data []byte

	Time      int64   // nanoseconds since the Unix epoch, CLOCK_REALTIME; never decreases in a session
	WireLen   int     // bytes before the cut, all fragments of the buffer included
	Interface int     // index into Session.Interfaces
	Queue     uint32  // the interface's receive queue
	ID        uint64  // the CPU in the upper 16 bits, the packet's running number there below; the same at Entry and Exit
	Verdict   Verdict // at Exit and TailCall: what the program returned
	Dropped   uint64  // packets lost since the one before this on the same interface and CPU
}

// CaptureInfo describes the packet to gopacket.
func (p *Packet) CaptureInfo() gopacket.CaptureInfo {
	return gopacket.CaptureInfo{
		Timestamp:      time.Unix(0, p.Time),
		CaptureLength:  len(p.Data),
		Length:         p.WireLen,
		InterfaceIndex: p.Interface,
	}
}

// An Interface is a hook on one of a session's interfaces.
type Interface struct {
	xdp.Interface
	Hook    Hook
	Mode    Mode        // at XDP: what the kernel runs the sampling program in
	Program xdp.Program // the sampling program
	Traced  xdp.Program // at Entry and Exit: the program that is sampled
}

// HasVerdict tells whether the interface's packets have one.
func (i *Interface) HasVerdict() bool { return i.Hook == Exit || i.Hook == TailCall }

// Label names the interface and the hook, as files and messages do: eth0, eth0:program@fentry, or the hook map's path.
func (i *Interface) Label() string {
	if i.Hook == XDP || i.Hook == TailCall {
		return i.Name
	}
	return i.Name + ":" + i.Traced.Name + "@f" + i.Hook.String()
}

// Counters account for every packet that the hook saw. All are cumulative since Open. Once Read has
// returned an error,
//
//	Seen = FilteredOut + NotSampled + Lost + Invalid + Captured
//
// holds exactly; before that, what is on its way through the rings is missing on the right.
type Counters struct {
	Seen        uint64 // packets that reached the sampling program
	FilteredOut uint64 // the filter did not match
	NotSampled  uint64 // passed over: by Options.Sample, or after Options.Count was reached
	Lost        uint64 // no room in the ring, or not accepted by a Writer's output
	Invalid     uint64 // records that failed the check of their cookie and length
	Captured    uint64 // returned by Read
	Bytes       uint64 // len(Packet.Data) of the captured packets
}

// Matched is how many packets the filter accepted.
func (c Counters) Matched() uint64 { return c.Seen - c.FilteredOut }

func (c *Counters) add(o Counters) {
	c.Seen += o.Seen
	c.FilteredOut += o.FilteredOut
	c.NotSampled += o.NotSampled
	c.Lost += o.Lost
	c.Invalid += o.Invalid
	c.Captured += o.Captured
	c.Bytes += o.Bytes
}

// Stats are the counters of a session: the total, and each interface's in the order of
// Session.Interfaces.
type Stats struct {
	Counters
	Interfaces []Counters
}

func total(interfaces []Counters) Stats {
	s := Stats{Interfaces: interfaces}
	for _, c := range interfaces {
		s.add(c)
	}
	return s
}
