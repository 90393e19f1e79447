package file

import "github.com/xdpcap/xdpcap/internal/pcapng"

// InterfaceStatistics are an interface's statistics in a file. A number that the file does not have
// is nil.
type InterfaceStatistics struct {
	Seen     *uint64 // packets that the interface received
	Matched  *uint64 // packets that the filter accepted
	Lost     *uint64 // packets that found no room in a ring, or that an output did not take
	Dropped  *uint64 // part of Lost: packets that found no room in a ring
	Captured *uint64
	PassedBy uint64 // at least: packets that the interface counted and that did not pass the hook; in no other number
}

// Statistics returns the latest statistics that the files have of a source, an index into Sources.
// ok is false if they have none.
func (in *Input) Statistics(source int) (s InterfaceStatistics, ok bool) {
	stored, ok := in.statistics[source]
	if ok {
		s = stored.numbers()
	}
	return s, ok
}

// storedStatistics are the statistics in a block.
type storedStatistics struct {
	pcapng.Statistics
	known    pcapng.Counters
	passedBy uint64
}

// numbers returns the statistics that the block has. isb_ifdrop counts all losses, and isb_osdrop
// those of the rings.
func (b *storedStatistics) numbers() (s InterfaceStatistics) {
	for _, n := range []struct {
		to    **uint64
		has   pcapng.Counters
		value uint64
	}{
		{&s.Seen, pcapng.HasReceived, b.Received},
		{&s.Matched, pcapng.HasAccepted, b.Accepted},
		{&s.Lost, pcapng.HasDropped, b.Dropped},
		{&s.Dropped, pcapng.HasOSDropped, b.OSDropped},
		{&s.Captured, pcapng.HasDelivered, b.Delivered},
	} {
		if b.known&n.has != 0 {
			*n.to = &n.value
		}
	}
	s.PassedBy = b.passedBy
	return s
}
