package file

import (
	"fmt"
	"slices"
	"strings"

	"github.com/xdpcap/xdpcap/capture"
)

// A Format is a capture file format.
type Format int

const (
	PCAPNG Format = iota // draft-ietf-opsawg-pcapng: packets with interfaces, queues, ids, losses and the account
	PCAP                 // the classic format: only packets, with nanoseconds unless Options.Microseconds
	JSON                 // a line for each packet, with its decoded headers instead of its bytes
)

// A formatKind has the properties of a Format. Each format's own file declares one, and other code
// asks it instead of comparing formats.
type formatKind struct {
	name       string   // by which users ask for it
	about      string   // what a file of it has, for users, in a few words; "" = nothing to say
	suffixes   []string // of the names of its files
	isText     bool     // it has a line of text for each packet, which may be printed
	hasWeights bool     // it tells how many packets each one stands for
	open       func(*capture.Description, *Options) encoder
}

// formatKinds are the kinds by their Format.
var formatKinds = []*formatKind{PCAPNG: &asPCAPNG, PCAP: &asPCAP, JSON: &asJSON}

func (f Format) isKnown() bool { return f >= 0 && int(f) < len(formatKinds) }

// kind is that of PCAPNG where the format is unknown.
func (f Format) kind() *formatKind {
	if !f.isKnown() {
		return &asPCAPNG
	}
	return formatKinds[f]
}

func (f Format) String() string {
	if !f.isKnown() {
		return fmt.Sprintf("format %d", int(f))
	}
	return f.kind().name
}

// About says what a file of the format has, in a few words; "" = nothing to say.
func (f Format) About() string { return f.kind().about }

// Suffixes are those of names of such files, in lower case: ".json", ".jsonl".
func (f Format) Suffixes() []string { return slices.Clone(f.kind().suffixes) }

// IsText tells whether a file of the format has a line of text for each packet, which may be
// printed.
func (f Format) IsText() bool { return f.kind().isText }

// HasWeights tells whether a file of the format can say for each packet how many it stands for,
// where packets were sampled at different rates.
func (f Format) HasWeights() bool { return f.kind().hasWeights }

// Formats returns all formats.
func Formats() (all []Format) {
	for f := range formatKinds {
		all = append(all, Format(f))
	}
	return all
}

// ParseFormat reads a format's name: "pcapng", "pcap" or "json".
func ParseFormat(s string) (Format, error) {
	var names []string
	for _, f := range Formats() {
		if s == f.String() {
			return f, nil
		}
		names = append(names, f.String())
	}
	last := len(names) - 1
	return 0, fmt.Errorf("file format %q: must be %s or %s", s, strings.Join(names[:last], ", "), names[last])
}
