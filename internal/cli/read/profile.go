package read

import (
	"cmp"
	"slices"
	"time"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/drops"
	"github.com/xdpcap/xdpcap/internal/headers"
	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A profile counts the packets of --stats by more of their properties, for a page.
type profile struct {
	timeline
	protocols map[protocol]*readTally
	sizes     [len(meter.SizeNames)]readTally
	runs      [xdp.VerdictSlots]meter.Histogram // run times by verdict
	lostAt    map[drops.Stage]*readTally        // packets that were thrown away
	comments  []string                          // of the sections, without duplicates
}

func newProfile() *profile {
	return &profile{protocols: make(map[protocol]*readTally), lostAt: make(map[drops.Stage]*readTally)}
}

// A protocol has the names of a meter.Class.
type protocol struct{ family, name string }

// addSection keeps the comments of a section of a file, with bounds because a file can have any
// number.
func (p *profile) addSection(comments []string) {
	const maxComments, maxBytes = 16, 16 << 10
	for _, c := range comments {
		if c = c[:min(len(c), maxBytes)]; c != "" && len(p.comments) < maxComments && !slices.Contains(p.comments, c) {
			p.comments = append(p.comments, c)
		}
	}
}

// add counts a packet.
func (p *profile) add(s *capture.Source, packet *capture.Packet, reason string, length, weight uint32) {
	if packet.HasTime() {
		p.timeline.add(packet.Time, length, packet.Dropped)
	}
	tallyOf(p.protocols, protocolOf(headers.LinkToDecode(s.LinkType()), packet.Data)).add(length, weight)
	p.sizes[meter.SizeOf(length)].add(length, weight)
	verdict, known := s.VerdictOf(packet)
	if known && packet.RunTime > 0 {
		p.runs[verdict.Slot()].Observe(time.Duration(packet.RunTime))
	}
	switch {
	case s.Hook == capture.StackDrop:
		tallyOf(p.lostAt, drops.StageOf(reason)).add(length, weight)
	case s.Hook.Loses() || known && verdict.Discards():
		tallyOf(p.lostAt, drops.XDP).add(length, weight)
	}
}

// tallyOf returns the tally of a key, and creates it if the map has none.
func tallyOf[K comparable](all map[K]*readTally, key K) *readTally {
	t := all[key]
	if t == nil {
		t = new(readTally)
		all[key] = t
	}
	return t
}

func protocolOf(link headers.Link, packet []byte) protocol {
	if link == headers.UnknownLink {
		return protocol{"other", "not decoded"}
	}
	class := meter.ClassOf(link, packet, new(headers.Headers))
	return protocol{class.Family(), class.Protocol()}
}

// A named is a tally with its names, which are the first cells of its row in a table.
type named struct {
	names []string
	tally readTally
}

// byPackets are the tallies of a map, the one with most packets first.
func byPackets[K comparable](all map[K]*readTally, names func(K) []string) (list []named) {
	for k, t := range all {
		list = append(list, named{names(k), *t})
	}
	slices.SortFunc(list, func(a, b named) int {
		return cmp.Or(cmp.Compare(b.tally.packets, a.tally.packets), slices.Compare(a.names, b.names))
	})
	return list
}
