package outputs

import (
	"strings"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
)

// A precision is the unit of time stamps in lines and in pcap files; "" = microseconds in lines,
// and nanoseconds in files.
type precision string

const (
	micro precision = "micro"
	nano  precision = "nano"
)

// flags are tcpdump's flags for the precision. The last one on the command line has precedence.
func (p *precision) flags() []frame.Flag {
	flags := []frame.Flag{{Name: "time-stamp-precision", Value: &precisionFlag{p, ""}, Words: []string{string(micro), string(nano)},
		Help: "print, and write to pcap files, time stamps with microseconds (`micro`) or nanoseconds (nano); without this, lines have microseconds, and files nanoseconds"}}
	for _, own := range []precision{micro, nano} {
		flags = append(flags, frame.Flag{Name: string(own), Value: &precisionFlag{p, own}, Bare: "true", Help: "short for --time-stamp-precision=" + string(own)})
	}
	return flags
}

// A precisionFlag is a flag that sets a precision: its own, or its value.
type precisionFlag struct {
	target *precision
	own    precision // "" = the flag has a value
}

// Set also accepts the name of a precision for a flag with its own, so that the value of String can
// be given to any of these flags.
func (f *precisionFlag) Set(value string) error {
	switch {
	case f.own != "" && value == "true":
		*f.target = f.own
	case strings.EqualFold(value, string(micro)):
		*f.target = micro
	case strings.EqualFold(value, string(nano)):
		*f.target = nano
	default:
		return frame.Refusal("say micro or nano")
	}
	return nil
}

func (f *precisionFlag) String() string {
	if f.target == nil {
		return ""
	}
	return string(*f.target)
}

// Forget undoes Set.
func (f *precisionFlag) Forget() { *f.target = "" }

// Type is bool for a flag without a value, for the help.
func (f *precisionFlag) Type() string {
	if f.own != "" {
		return "bool"
	}
	return "precision"
}
