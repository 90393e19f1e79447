package follow

import (
	"cmp"

	"github.com/xdpcap/xdpcap/capture/packet"
)

// A Way is a packet with its records, in the order in which they came.
type Way struct {
	Records []*Record

	// Fits is how many packets its first record fits, if that was joined to none of them because
	// they are several; else 0.
	Fits int

	// Unclear are records that fit this packet and others, at places where it has none of its own:
	// the last one of each place.
	Unclear []*Record

	buckets []*bucket // in which it is found
	spots   []spot    // that it takes in them
	next    *Way      // whose first record came next
}

// maxRecords is how many records of a packet are joined at most.
const maxRecords = 64

// A Record is a packet at one place. Several ways have it if it holds the data of several smaller
// packets.
type Record struct {
	Time    int64  // its stamp, in ns since the Unix epoch
	WireLen uint32 // bytes before the packet was cut
	First   bool   // it begins a way

	// What the caller says of it, and of its place.
	Text  []byte
	Place string

	ways int // that have it

	id, content key
	at, program uint32 // its place by hook; the same, but one for entry and exit of a program with ids
}

// Holds tells whether a record has the data of another one and more, as a packet that GRO has
// merged has that of each of its segments.
func (r *Record) Holds(part *Record) bool {
	return r.content != part.content && r.content.holds(&part.content)
}

// A placeName is what makes places differ. The same name in another file is another place, because
// that may be another host's.
type placeName struct {
	file, name, program string
	hook                packet.Hook
}

// anyHook is for a program's entry and exit together.
const anyHook = packet.Hook(-1)

// places numbers places. They are as many as the sources.
type places struct {
	numbers map[placeName]uint32
	sources []sourcePlace // by index of the source
}

// A sourcePlace has a source's places. 0 = not numbered yet.
type sourcePlace struct{ at, program uint32 }

func newPlaces() places { return places{numbers: make(map[placeName]uint32)} }

// of returns the place of one of the source's packets by hook, and by program. At the same program
// a packet with another id is another packet. Without ids, its entry and its exit are two places
// like any others.
func (p *places) of(s *packet.Source, packet *packet.Packet, hasID bool) (at, program uint32) {
	for len(p.sources) <= int(packet.Source) {
		p.sources = append(p.sources, sourcePlace{})
	}
	known := &p.sources[packet.Source]
	if known.at == 0 {
		name := placeName{s.File, cmp.Or(s.Name, s.Label()), s.Target.Name, s.Hook}
		known.at = p.number(name)
		name.hook = anyHook
		known.program = p.number(name)
	}
	if !hasID {
		return known.at, known.at
	}
	return known.at, known.program
}

func (p *places) number(name placeName) uint32 {
	n, ok := p.numbers[name]
	if !ok {
		n = uint32(len(p.numbers)) + 1
		p.numbers[name] = n
	}
	return n
}
