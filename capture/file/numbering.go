package file

import (
	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/pcapng"
)

// A numbering has the numbers of interfaces in a file of a live capture to which interfaces may be
// added. The first file uses the numbers in the encoded blocks. A later file describes fewer
// interfaces, and has its own numbers.
type numbering struct {
	numbers    []uint32 // by source: one more than the number of its interface in the file; nil = no interfaces are added
	interfaces uint32   // how many interfaces the file describes
	renumbers  bool     // packets must be given the numbers of this file
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

// undescribe restores the numbers that interfaces had before the given blocks, which were removed
// from the file's end.
func (n *numbering) undescribe(blocks []capture.BlockEnd) {
	for i := len(blocks) - 1; i >= 0 && n.numbers != nil; i-- {
		if b := &blocks[i]; b.Source == headMore {
			n.numbers[b.Bytes] = uint32(b.Time)
			n.interfaces--
		}
	}
}

// number assigns numbers to the interfaces that these blocks describe, and writes numbers into
// packets if the file has its own.
func (n *numbering) number(blocks []byte, packets []capture.BlockEnd) {
	first := packetsBegin(blocks, packets)
	begins := first
	for i := range packets {
		p := &packets[i]
		switch {
		case p.Source == headMore:
			p.Time = int64(n.add(int(p.Bytes))) // for undescribe
		case n.renumbers && isPacket(p):
			pcapng.SetPacketInterface(blocks[begins-first:], n.numbers[p.Source]-1)
		}
		begins = p.End
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
