package lines

import "github.com/xdpcap/xdpcap/capture"

// A Follower says in words where packets are seen that are followed from place to place. It belongs
// to one goroutine.
type Follower struct{ lines *packetLines }

// NewFollower returns the words for packets from what d describes.
func NewFollower(d capture.Description, f Format) *Follower {
	l := newPacketLines(&d, f)
	l.several = true // every line says where the packet was seen
	return &Follower{l}
}

// AppendLine appends a packet's line, and a newline.
func (f *Follower) AppendLine(dst []byte, p *capture.Packet) []byte {
	f.lines.look()
	return f.lines.append(dst, p)
}

// Origin is the part of a packet's line between the time and the headers: where it was seen, and
// what is known of it there.
func (f *Follower) Origin(p *capture.Packet) []byte {
	f.lines.look()
	return f.lines.appendOrigin(nil, p)
}

// Place names the source of a packet as its line does.
func (f *Follower) Place(p *capture.Packet) string {
	f.lines.look()
	return f.lines.labels[p.Source]
}
