package read

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/capture/file"
	"github.com/xdpcap/xdpcap/internal/follow"
	"github.com/xdpcap/xdpcap/internal/lines"
	"github.com/xdpcap/xdpcap/internal/meter"
)

// delays has the times that packets took from the place where --follow finds them first to each
// further one.
type delays struct {
	in      *file.Input
	sources []capture.Source
	table   *follow.Table
	words   *lines.Text

	hops      map[hop]*meter.Histogram
	onePlace  map[string]uint64 // packets that were seen at this place alone
	ambiguous uint64            // packets that fit several others
}

// A hop is the way of packets from one place to another.
type hop struct{ from, to string }

func newDelays(in *file.Input, d capture.Description) *delays {
	f := &delays{in: in, words: lines.NewText(&d, lines.Format{NamesSources: true}), hops: make(map[hop]*meter.Histogram), onePlace: make(map[string]uint64)}
	f.table = follow.New(f.addWay)
	return f
}

func (f *delays) add(packets []capture.Packet) {
	f.sources = append(f.sources, f.in.SourcesFrom(len(f.sources))...)
	f.words.AddSources()
	for i := range packets {
		p := &packets[i]
		f.table.Add(&f.sources[p.Source], p).Place = f.words.Place(p)
	}
}

// addWay adds a packet with all its records.
func (f *delays) addWay(w *follow.Way) {
	first := w.Records[0]
	switch {
	case w.Fits > 0 || len(w.Unclear) > 0:
		f.ambiguous++
	case len(w.Records) == 1:
		f.onePlace[first.Place]++
	}
	for _, r := range w.Records[1:] {
		h := hop{first.Place, r.Place}
		if f.hops[h] == nil {
			f.hops[h] = new(meter.Histogram)
		}
		f.hops[h].Observe(max(time.Duration(r.Time-first.Time), 0))
	}
}

// byPackets are the hops, the one with most packets first.
func (f *delays) byPackets() []hop {
	return slices.SortedFunc(maps.Keys(f.hops), func(a, b hop) int {
		return cmp.Or(cmp.Compare(f.hops[b].Count, f.hops[a].Count), cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to))
	})
}
