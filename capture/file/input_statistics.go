package file

import (
	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/capfile"
	"github.com/xdpcap/xdpcap/internal/pcapng"
)

// InterfaceStatistics are an interface's statistics in a file. A number that the file does not have
// is nil.
type InterfaceStatistics struct {
	Seen     *uint64 // packets that the interface received
	Matched  *uint64 // packets that the filter accepted
	Lost     *uint64 // packets that found no room in a ring, or that an output did not take
	Dropped  *uint64 // part of Lost: packets that found no room in a ring
	Captured *uint64
	PassedBy uint64 // lower bound: packets that the interface counted, and not the hook; in no other number
}

// Statistics returns the latest statistics that the files have of a source, an index into Sources.
// ok is false if they have none.
func (in *Input) Statistics(source int) (s InterfaceStatistics, ok bool) {
	s, ok = in.statistics[source]
	return s, ok
}

// statisticsIn returns the statistics in a block. isb_ifdrop counts all losses, and isb_osdrop
// those of the rings.
func statisticsIn(b *capfile.Block) InterfaceStatistics {
	s := InterfaceStatistics{PassedBy: capture.ParsePassedBy(b.Raw.Comments())}
	for _, n := range []struct {
		to    **uint64
		has   pcapng.Counters
		value uint64
	}{
		{&s.Seen, pcapng.HasReceived, b.Statistics.Received},
		{&s.Matched, pcapng.HasAccepted, b.Statistics.Accepted},
		{&s.Lost, pcapng.HasDropped, b.Statistics.Dropped},
		{&s.Dropped, pcapng.HasOSDropped, b.Statistics.OSDropped},
		{&s.Captured, pcapng.HasDelivered, b.Statistics.Delivered},
	} {
		if b.Known&n.has != 0 {
			*n.to = &n.value
		}
	}
	return s
}
