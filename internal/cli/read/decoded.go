package read

import (
	"fmt"
	"maps"
	"slices"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/headers"
	"github.com/xdpcap/xdpcap/internal/pcapng"
)

// A decoder is an output that decodes packets, and counts those that it cannot decode.
type decoder struct {
	capture.Output
	more      func(from int) []capture.Source // Description.More: the sources from this index on
	sources   []capture.Source
	undecoded map[uint16]uint64 // packets by link type
}

// Begin implements capture.Output.
func (o *decoder) Begin(d capture.Description) error {
	o.more, o.undecoded = d.More, make(map[uint16]uint64)
	return o.Output.Begin(d)
}

// Write implements capture.Output.
func (o *decoder) Write(packets []capture.Packet) error {
	o.sources = append(o.sources, o.more(len(o.sources))...)
	for i := range packets {
		if s := &o.sources[packets[i].Source]; headers.LinkToDecode(s.LinkType()) == headers.UnknownLink {
			o.undecoded[s.LinkType()]++
		}
	}
	return o.Output.Write(packets)
}

// errors has an error for each link type with packets that were not decoded.
func (o *decoder) errors() (all []error) {
	for _, typ := range slices.Sorted(maps.Keys(o.undecoded)) {
		all = append(all, fmt.Errorf("did not decode %s of %s", frame.Packets(o.undecoded[typ]), pcapng.LinkTypeName(typ)))
	}
	return all
}
