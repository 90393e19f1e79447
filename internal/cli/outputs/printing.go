package outputs

import (
	"cmp"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/dissect"
	"github.com/xdpcap/xdpcap/internal/lines"
)

// PrintOptions are the flags about printed packets, with the meaning of tcpdump's.
type PrintOptions struct {
	Verbose, hex, hexASCII, ascii, time frame.Count // the number of times that the flag was given

	Quiet, linkLevel, number, lengths, unverified bool

	precision precision
}

// Flags are the rows of the flags.
func (o *PrintOptions) Flags() []frame.Flag {
	flags := []frame.Flag{
		{Name: "verbose", Letter: "v", Value: &o.Verbose, Help: "print more of each packet, and more about errors; -vv, -vvv: still more"},
		{Name: "quiet", Letter: "q", Value: &o.Quiet, Help: "print shorter lines, and no status"},
		{Name: "link-level", Letter: "e", Value: &o.linkLevel, Help: "print the Ethernet header and its tags"},
		{Name: "hex", Letter: "x", Value: &o.hex, Help: "also print the packet's bytes; -xx includes the Ethernet header"},
		{Name: "hex-ascii", Letter: "X", Value: &o.hexASCII, Help: "also print its bytes and characters; -XX includes the Ethernet header"},
		{Name: "ascii", Letter: "A", Value: &o.ascii, Help: "also print its characters; -AA includes the Ethernet header"},
		{Name: "time-format", Letter: "t", Value: &o.time,
			Help: "print no time; -tt: in seconds since 1970; -ttt: since the line before; -tttt: with the date; -ttttt: since the first line"},
		{Name: "number", Letter: "#", Value: &o.number, Help: "print the packet's number"},
		{Name: "lengths", Value: &o.lengths, Help: "print how many bytes were kept of the packet, and how many it had"},
		{Name: "dont-verify-checksums", Letter: "K", Value: &o.unverified, Help: "with -v, do not verify checksums"},
	}
	flags = append(flags, o.precision.flags()...)
	return append(flags, frame.Flag{Name: "no-names", Letter: "n", Value: new(bool), Help: "print addresses as numbers, which xdpcap always does"})
}

// Format returns the format of lines. As in tcpdump, -X overrides -x, and -x overrides -A.
func (o *PrintOptions) Format(color bool) lines.Format {
	f := lines.Format{Color: color, Options: dissect.Options{
		Verbose:   int(o.Verbose),
		Quiet:     o.Quiet,
		LinkLevel: o.linkLevel,
		Number:    o.number,
		Lengths:   o.lengths,

		Nanoseconds: o.precision == nano,
		Unverified:  o.unverified,
		Time:        dissect.TimeFormat(min(int(o.time), int(dissect.SinceFirst))),
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

// Microseconds reports whether pcap files have microseconds instead of nanoseconds.
func (o *PrintOptions) Microseconds() bool { return o.precision == micro }
