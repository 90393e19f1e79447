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
	JSON                 // one line per packet, with its decoded headers instead of its bytes
	CSV                  // one row per packet, with the values of JSON, after a row with their names
)

// A formatKind has the properties of a Format: pcapng.go, pcap.go and text.go declare them. Other
// code reads these properties and never compares formats.
type formatKind struct {
	name       string   // in flags and errors
	about      string   // Format.About
	suffixes   []string // Format.Suffixes
	isText     bool     // Format.IsText
	hasWeights bool     // Format.HasWeights
	open       func(*capture.Description, *Options) encoder
}

// formatKinds has the properties of each Format, by its number.
var formatKinds = []*formatKind{PCAPNG: &asPCAPNG, PCAP: &asPCAP, JSON: &asJSON, CSV: &asCSV}

func (f Format) isKnown() bool { return f >= 0 && int(f) < len(formatKinds) }

// kind returns the format's properties, or those of PCAPNG if the format is unknown.
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

// About returns a few words about the content of a file of the format; "" = not described.
func (f Format) About() string { return f.kind().about }

// Suffixes returns the file name suffixes of the format, in lower case: ".json", ".jsonl".
func (f Format) Suffixes() []string { return slices.Clone(f.kind().suffixes) }

// IsText reports whether a file of the format has one line of text per packet, which may be
// printed.
func (f Format) IsText() bool { return f.kind().isText }

// HasWeights reports whether a file of the format can store how many packets each packet
// represents, for captures whose sampling rate changes.
func (f Format) HasWeights() bool { return f.kind().hasWeights }

// Formats returns all formats.
func Formats() (all []Format) {
	for f := range formatKinds {
		all = append(all, Format(f))
	}
	return all
}

// ParseFormat parses a format's name: "pcapng", "pcap", "json" or "csv".
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
