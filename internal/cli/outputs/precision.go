package outputs

import (
	"strings"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
)

// A precision is that of the time stamps in lines and in pcap files; "" = the user did not say, and
// lines have microseconds, files nanoseconds.
type precision string

const (
	micro precision = "micro"
	nano  precision = "nano"
)

// flags are tcpdump's flags for it, of which the last one counts.
func (p *precision) flags() []frame.Flag {
	flags := []frame.Flag{{Name: "time-stamp-precision", Value: &precisionFlag{p, ""}, Words: []string{string(micro), string(nano)},
		Help: "print, and write to pcap files, time stamps with microseconds (`micro`) or nanoseconds (nano); without this, lines have microseconds, and files nanoseconds"}}
	for _, own := range []precision{micro, nano} {
		flags = append(flags, frame.Flag{Name: string(own), Value: &precisionFlag{p, own}, Bare: "true", Help: "short for --time-stamp-precision=" + string(own)})
	}
	return flags
}

// A precisionFlag is a flag that sets a precision: its own, or the one that is its value.
type precisionFlag struct {
	of  *precision
	own precision
}

// Set also takes the name of a precision where the flag has one of its own: so the value that
// String returns means the same for all of these flags, in any order.
func (f *precisionFlag) Set(value string) error {
	switch {
	case f.own != "" && value == "true":
		*f.of = f.own
	case strings.EqualFold(value, string(micro)):
		*f.of = micro
	case strings.EqualFold(value, string(nano)):
		*f.of = nano
	default:
		return frame.Refusal("say micro or nano")
	}
	return nil
}

func (f *precisionFlag) String() string {
	if f.of == nil {
		return ""
	}
	return string(*f.of)
}

// Forget undoes Set.
func (f *precisionFlag) Forget() { *f.of = "" }

// Type is that of a flag without a value, for the help, if the flag has a precision of its own.
func (f *precisionFlag) Type() string {
	if f.own != "" {
		return "bool"
	}
	return "precision"
}
