package xdp

import "github.com/xdpcap/xdpcap/capture/packet"

// A Verdict is the return value of an XDP program.
type Verdict = packet.Verdict

// The verdicts of package packet.
const (
	Aborted        = packet.Aborted
	Drop           = packet.Drop
	Pass           = packet.Pass
	Tx             = packet.Tx
	Redirect       = packet.Redirect
	UnknownVerdict = packet.UnknownVerdict
	Verdicts       = packet.Verdicts
	VerdictSlots   = packet.VerdictSlots
)

// VerdictNames are the names of the kernel's verdicts, in the order of their numbers.
func VerdictNames() []string { return packet.VerdictNames() }

// ParseVerdict reads a verdict's name, with or without the kernel's XDP_, or its number.
func ParseVerdict(s string) (Verdict, error) { return packet.ParseVerdict(s) }

// Loses reports whether the kernel discards a packet with this verdict. It discards packets with
// unknown verdicts, too.
func Loses(v Verdict) bool { return v.Discards() || v == UnknownVerdict }
