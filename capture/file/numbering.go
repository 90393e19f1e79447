package file

import (
	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/pcapng"
)

// A numbering has the numbers of interfaces in one file of a live capture that may add interfaces.
// The first file has the numbers that the encoder has written into the blocks. A later file
// describes fewer interfaces, without those that have gone, so its numbers differ.
type numbering struct {
	numbers    []uint32 // by source: 1 + the number of its interface, 0 = not described; nil = no interfaces are added
	interfaces uint32   // how many interfaces the file describes
	renumbers  bool     // packets must get the numbers of this file
}

// newNumbering returns the numbers in a file whose header describes these sources; nil = no
// interfaces are added.
func newNumbering(described []int) (n numbering) {
	if described != nil {
		n.numbers = []uint32{}
	}
	for _, source := range described {
		n.add(source)
	}
	return n
}

// firstInterfaces returns the sources in the header of the first file, in the order of their
// interfaces' numbers. It is nil if no interfaces are added during the capture.
func firstInterfaces(d *capture.Description) []int {
	if !d.IsLive() || d.More == nil {
		return nil
	}
	sources := make([]int, len(d.Sources))
	for i := range sources {
		sources[i] = i
	}
	return sources
}

// add gives the interface of a source the next number in the file, and returns the entry of numbers
// that it replaces.
func (n *numbering) add(source int) (before uint32) {
	for len(n.numbers) <= source {
		n.numbers = append(n.numbers, 0)
	}
	n.interfaces++
	before, n.numbers[source] = n.numbers[source], n.interfaces
	return before
}

// undescribe undoes the effect of `number` for blocks that were removed from the file's end.
func (n *numbering) undescribe(blocks []capture.BlockEnd) {
	for i := len(blocks) - 1; i >= 0 && n.numbers != nil; i-- {
		if b := &blocks[i]; b.Source == headMore {
			n.numbers[b.Bytes] = uint32(b.Time) // as number has kept it there
			n.interfaces--
		}
	}
}

// number assigns numbers to the interfaces that these blocks describe and, if the file has numbers
// of its own, writes them into the packets.
func (n *numbering) number(blocks []byte, ends []capture.BlockEnd) {
	for block, end := range eachBlock(blocks, ends) {
		switch {
		case end.Source == headMore:
			end.Time = int64(n.add(int(end.Bytes))) // the previous number, for undescribe
		case n.renumbers && isPacket(end):
			pcapng.SetPacketInterface(block, n.numbers[end.Source]-1)
		}
	}
}

// interfaceOf returns the number of the source's interface in the file; ok is false if the file
// does not describe it.
func (n *numbering) interfaceOf(source int) (number uint32, ok bool) {
	switch {
	case n.numbers == nil:
		return uint32(source), true
	case source >= len(n.numbers) || n.numbers[source] == 0:
		return 0, false
	}
	return n.numbers[source] - 1, true
}

// described empties the accounts of sources that the file does not describe, and returns own.
func (n *numbering) described(own capture.Accounts) capture.Accounts {
	for i := range own {
		if _, ok := n.interfaceOf(i); !ok {
			own[i] = capture.Account{}
		}
	}
	return own
}
