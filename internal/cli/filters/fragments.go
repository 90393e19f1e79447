package filters

import (
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/headers"
)

// FragmentsFlag is the flag --fragments.
func (o *Options) FragmentsFlag() frame.Flag {
	return frame.Flag{Name: "fragments", Value: &o.Fragments,
		Help: "let the filter decide about a datagram of IP as a whole: later fragments, which have no ports, go the way of the first one"}
}

// Fragments decide about later fragments of IP datagrams as about the first fragment, as the
// programs of a capture with Options.Fragments do. The zero value is ready.
type Fragments struct {
	Undecided uint64 // later fragments that do not match, and whose first fragment was not seen

	// Whether the filter matches the first fragment. When latest is full, it replaces older.
	latest, older map[headers.Datagram]bool
}

// mostDatagrams is the upper bound for the datagrams in each of both maps.
const mostDatagrams = 1 << 13

// Takes reports whether a packet is taken. match is the filter's result for the packet alone.
func (f *Fragments) Takes(link headers.Link, data []byte, match bool) bool {
	var h headers.Headers
	headers.Parse(link, data, &h)
	d, isFirst, ok := h.Datagram()
	if !ok {
		return match
	}
	if isFirst {
		f.keep(d, match)
		return match
	}
	takes, ok := f.latest[d]
	if !ok {
		takes, ok = f.older[d]
	}
	if ok {
		return takes
	}
	if !match {
		f.Undecided++
	}
	return match
}

func (f *Fragments) keep(d headers.Datagram, takes bool) {
	if f.latest == nil || len(f.latest) == mostDatagrams {
		f.older, f.latest = f.latest, make(map[headers.Datagram]bool)
	}
	f.latest[d] = takes
}
