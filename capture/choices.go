package capture

import "github.com/xdpcap/xdpcap/capture/internal/probe"

// At is the hook at which received packets are captured.
type At = probe.At

const (
	// AtXDP captures at XDP, before the kernel has done anything with a packet. Where an XDP
	// program runs, it is traced.
	AtXDP = probe.AtXDP
	// AtIngress captures at tc ingress, after XDP. It does not attach to the driver, so it resets
	// no card and takes no offload away; and it sees the packets that tc redirects to the
	// interface, which do not pass XDP. It does not see packets that XDP programs drop or send
	// elsewhere.
	AtIngress = probe.AtIngress
	// AtAuto is AtXDP where an option needs XDP, an XDP program runs, the interface is a card whose
	// driver has native XDP, or no program can be attached at tc. Elsewhere it is AtIngress.
	AtAuto = probe.AtAuto
)

// ParseAt reads where to capture: "xdp", "tc" or "auto".
func ParseAt(s string) (At, error) { return probe.ParseAt(s) }

// VLANRestore is whether VLAN tags that a card has stripped are put back into packets at XDP. Only
// the card has such a tag: its driver must give it to XDP programs (Linux 6.8).
type VLANRestore = probe.VLANRestore

const (
	VLANRestoreAuto = probe.VLANRestoreAuto // if the driver gives them to XDP programs
	VLANRestoreOn   = probe.VLANRestoreOn   // the same, with a Notice if it does not
	VLANRestoreOff  = probe.VLANRestoreOff
)

// A Stamp is the clock that stamps packets. Packets are always ordered by the host's clock.
type Stamp = probe.Stamp

const (
	HostStamp            = probe.HostStamp            // CLOCK_REALTIME, taken by the sampling program
	HostLowprecStamp     = probe.HostLowprecStamp     // CLOCK_REALTIME, but not read for each packet: see Options.Stamp
	AdapterStamp         = probe.AdapterStamp         // the card's clock, converted to CLOCK_REALTIME by a measured offset
	AdapterUnsyncedStamp = probe.AdapterUnsyncedStamp // the card's clock, in its own ns
)

// ParseStamp reads the name of a Stamp. The names are tcpdump's.
func ParseStamp(name string) (Stamp, error) { return probe.ParseStamp(name) }

// StampTypes returns the stamps that packets of the interface can have, the host's first.
func StampTypes(name string) ([]Stamp, error) { return probe.StampTypes(name) }

// ParseReasons returns the numbers that this kernel's reasons of these names have. A name such as
// NO_SOCKET may be in lower case, and may have the kernel's prefix. An error has the names whose
// spelling is similar to an unknown name.
func ParseReasons(names ...string) ([]Reason, error) { return probe.ParseReasons(names...) }

// Reasons returns the names of all reasons for which this kernel throws packets away.
func Reasons() ([]string, error) { return probe.Reasons() }
