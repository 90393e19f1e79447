package file

import "github.com/xdpcap/xdpcap/capture"

// copyEncoder puts the blocks that a Copier makes of capture files into chunks.
type copyEncoder struct{ *Copier }

func (e *copyEncoder) header(b []byte) []byte { return e.Header(b) }

// trailer returns b unchanged: copied files have the statistics of their input.
func (e *copyEncoder) trailer(b []byte, _ *statistics) []byte { return b }

func (e *copyEncoder) packets(c *chunk, packets []capture.Packet) (n int, err error) {
	for ; n < len(packets) && c.hasRoom(e.Len(&packets[n])); n++ {
		c.blocks = e.Append(c.blocks, &packets[n])
		c.notePacket(&packets[n])
	}
	return n, nil
}

// block adds a block that is not a packet. It returns false if the chunk has no room for it; an
// empty one always has.
func (e *copyEncoder) block(c *chunk, b Block) bool {
	if !c.hasRoom(b.Len()) {
		return false
	}
	var kind BlockKind
	c.blocks, kind = e.AppendBlock(c.blocks, b)
	switch kind {
	case SectionBlock:
		c.noteBlock(headBlock)
	case InterfaceBlock, LastingBlock:
		c.noteBlock(headMore)
	case OtherBlock:
		c.noteBlock(otherBlock)
	}
	return true
}
