package follow

import (
	"cmp"

	"github.com/xdpcap/xdpcap/capture/packet"
)

// A Way is a packet on its way through the host.
type Way struct {
	Records []*Record // in the order in which they were added

	// Fits is the number of earlier packets that the first record fits, if it fits several: then it
	// was joined to none of them. Otherwise it is 0.
	Fits int

	// Unclear has the records that fit this packet and others, at places where this packet has no
	// record: of each place the last one.
	Unclear []*Record

	buckets []*bucket // the buckets that contain it
	spots   []spot    // the spots that it occupies in them
	next    *Way      // the way whose first record was added next
}

// maxRecords is the maximum number of records that are joined to one packet.
const maxRecords = 64

// A Record is a packet at one place. It belongs to several ways if it holds the data of several
// smaller packets.
type Record struct {
	Time    int64  // its stamp, in ns since the Unix epoch
	WireLen uint32 // bytes before the packet was cut
	First   bool   // it is the first of a Way

	// The texts of the caller for the record and its place.
	Text  []byte
	Place string

	ways int // the number of ways that have it

	id, content key
	at, program uint32 // the number of its place, and of its program's place: see places.of
}

// Holds reports whether a record has the data of another one and more, such as a packet that GRO
// has merged from segments.
func (r *Record) Holds(part *Record) bool {
	return r.content != part.content && r.content.holds(&part.content)
}

// A placeName identifies a place. The same name in another file is another place, because the file
// may be from another host.
type placeName struct {
	file, name, program string
	hook                packet.Hook
}

// anyHook is for a program's entry and exit together.
const anyHook = packet.Hook(-1)

// places numbers places. Their number is bounded by the number of sources.
type places struct {
	numbers map[placeName]uint32
	sources []sourcePlace // by index of the source
}

// A sourcePlace has a source's places. 0 = not numbered yet.
type sourcePlace struct{ at, program uint32 }

func newPlaces() places { return places{numbers: make(map[placeName]uint32)} }

// of returns two numbers of the place of one of the source's packets. `at` has an own number for
// each hook. `program` is the same at the entry and at the exit of a program, so that a way has one
// record of a program unless the packet's id joins two. Without an id it equals `at`.
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
