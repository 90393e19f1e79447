package lines

import "github.com/xdpcap/xdpcap/capture"

// A Follower formats the places of packets that are followed from place to place. It belongs to one
// goroutine.
type Follower struct{ lines *packetLines }

// NewFollower returns a Follower for packets of the sources in d.
func NewFollower(d capture.Description, f Format) *Follower {
	l := newPacketLines(&d, f)
	l.several = true // every line names the packet's source
	return &Follower{l}
}

// AppendLine appends a packet's line, and a newline.
func (f *Follower) AppendLine(dst []byte, p *capture.Packet) []byte {
	f.lines.addSources()
	return f.lines.append(dst, p)
}

// Origin returns the part of a packet's line between the time and the headers: the packet's source,
// and its facts at that source.
func (f *Follower) Origin(p *capture.Packet) []byte {
	f.lines.addSources()
	return f.lines.appendOrigin(nil, p)
}

// Place returns the source of a packet as its line names it.
func (f *Follower) Place(p *capture.Packet) string {
	f.lines.addSources()
	return f.lines.labels[p.Source]
}
