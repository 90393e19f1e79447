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

// decoded is an output that decodes packets. It counts those that it cannot decode.
type decoded struct {
	capture.Output
	more    func(from int) []capture.Source
	sources []capture.Source
	other   map[uint16]uint64 // by link type
}

// Begin notes where the sources are found.
func (o *decoded) Begin(d capture.Description) error {
	o.more, o.other = d.More, make(map[uint16]uint64)
	return o.Output.Begin(d)
}

// Write counts the packets that are not decoded, and hands all of them on.
func (o *decoded) Write(packets []capture.Packet) error {
	o.sources = append(o.sources, o.more(len(o.sources))...)
	for i := range packets {
		if s := &o.sources[packets[i].Source]; headers.LinkToDecode(s.LinkType()) == headers.UnknownLink {
			o.other[s.LinkType()]++
		}
	}
	return o.Output.Write(packets)
}

// unknown has an error for the packets of each link type that were not decoded.
func (o *decoded) unknown() (all []error) {
	for _, typ := range slices.Sorted(maps.Keys(o.other)) {
		all = append(all, fmt.Errorf("did not decode %s of %s", frame.Packets(o.other[typ]), pcapng.LinkTypeName(typ)))
	}
	return all
}
