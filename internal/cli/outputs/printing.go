package outputs

import (
	"cmp"
	"os"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/xdpcap/xdpcap/internal/dissect"
	"github.com/xdpcap/xdpcap/internal/lines"
)

// PrintOptions are the flags that say how packets are printed. They mean what tcpdump's mean.
type PrintOptions struct {
	Verbose, hex, hexASCII, ascii, time int // how often the flag was given

	Quiet, linkLevel, number, lengths, unverified bool

	precision precision
}

// Flags defines them.
func (o *PrintOptions) Flags(f *pflag.FlagSet) {
	f.CountVarP(&o.Verbose, "verbose", "v", "print more of each packet, and more about errors; -vv, -vvv: still more")
	f.BoolVarP(&o.Quiet, "quiet", "q", false, "print shorter lines, and no live count")
	f.BoolVarP(&o.linkLevel, "link-level", "e", false, "print the Ethernet header and its tags")
	f.CountVarP(&o.hex, "hex", "x", "also print the packet's bytes; -xx includes the Ethernet header")
	f.CountVarP(&o.hexASCII, "hex-ascii", "X", "also print its bytes and characters; -XX includes the Ethernet header")
	f.CountVarP(&o.ascii, "ascii", "A", "also print its characters; -AA includes the Ethernet header")
	f.CountVarP(&o.time, "time-format", "t",
		"print no time; -tt: in seconds since 1970; -ttt: since the line before; -tttt: with the date; -ttttt: since the first line")
	f.BoolVarP(&o.number, "number", "#", false, "print the packet's number")
	f.BoolVar(&o.lengths, "lengths", false, "print how many bytes were kept of the packet, and how many it had")
	f.BoolVarP(&o.unverified, "dont-verify-checksums", "K", false, "with -v, do not verify checksums")
	o.precision.flags(f)
	f.BoolP("no-names", "n", false, "print addresses as numbers, which xdpcap always does")
}

// Format returns the format of lines. As in tcpdump, -X overrides -x, and -x overrides -A.
func (o *PrintOptions) Format(color bool) lines.Format {
	f := lines.Format{Color: color, Options: dissect.Options{
		Verbose:   o.Verbose,
		Quiet:     o.Quiet,
		LinkLevel: o.linkLevel,
		Number:    o.number,
		Lengths:   o.lengths,

		Nanoseconds: o.precision == nano,
		Unverified:  o.unverified,
		Time:        dissect.TimeFormat(min(o.time, int(dissect.SinceFirst))),
	}}
	switch {
	case o.hexASCII > 0:
		f.Dump = dissect.HexASCIIDump
	case o.hex > 0:
		f.Dump = dissect.HexDump
	case o.ascii > 0:
		f.Dump = dissect.ASCIIDump
	}
	f.DumpLinkLevel = cmp.Or(o.hexASCII, o.hex, o.ascii) > 1
	return f
}

// Microseconds tells whether pcap files are to have microseconds instead of nanoseconds.
func (o *PrintOptions) Microseconds() bool { return o.precision == micro }

// Colored says whether lines to this file have colours: on a terminal that supports them, unless
// NO_COLOR is set (see no-color.org).
func Colored(f *os.File) bool {
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd()))
}
