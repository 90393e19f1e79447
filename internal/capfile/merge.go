package capfile

import (
	"container/heap"
	"errors"
	"io"
	"slices"
)

// A Merge returns the blocks of several files. Its next packet is the earliest of each file's next
// packets; if times are equal, the file that was named first comes first. Packets that are out of
// order within a file stay so. Other blocks keep their position between the packets of their file,
// and the blocks before a file's first packet come at the beginning. A Merge belongs to one
// goroutine.
type Merge struct {
	pending    []*File // files whose next packet is not known yet: at the beginning, and while they are late
	heads      heads   // files whose current block is a packet
	returned   bool    // the packet of heads[0] has been returned
	interfaces int     // described so far
	errs       []error // of the files that have ended
}

// NewMerge returns a Merge of these files. It sets their Index, and the Number of their interfaces.
func NewMerge(files []*File) *Merge {
	for i, f := range files {
		f.Index = i
	}
	return &Merge{pending: slices.Clone(files)}
}

// Next returns the next block, which is valid until the call after it. A file with an error ends
// before the error, and the other files continue; they also continue while a file is late. At the
// end of all files the error is io.EOF, or joins the errors of the files.
func (m *Merge) Next() (*Block, error) {
	for {
		if b := m.findPackets(); b != nil {
			return b, nil
		}
		switch {
		case len(m.heads) > 0:
			m.returned = true
			return &m.heads[0].block, nil
		case len(m.pending) > 0: // all are late
			if err := m.pending[0].in.pause(); err != nil {
				return nil, err
			}
		case len(m.errs) > 0:
			return nil, errors.Join(m.errs...)
		default:
			return nil, io.EOF
		}
	}
}

// findPackets advances the file whose packet was returned, and the pending files, to their next
// packets. It returns early with a block that is not a packet, if one comes before these.
func (m *Merge) findPackets() *Block {
	if m.returned {
		b, late := m.advance(m.heads[0])
		switch {
		case b != nil && b.Kind != Packet:
			return b
		case b != nil && len(m.heads) > 1:
			heap.Fix(&m.heads, 0)
		case b == nil:
			if f := heap.Pop(&m.heads).(*File); late {
				m.pending = append(m.pending, f)
			}
		}
		m.returned = false
	}
	for i := 0; i < len(m.pending); {
		f := m.pending[i]
		b, late := m.advance(f)
		switch {
		case late:
			i++
			continue
		case b != nil && b.Kind != Packet:
			return b
		case b != nil:
			heap.Push(&m.heads, f)
		}
		m.pending = slices.Delete(m.pending, i, i+1)
	}
	return nil
}

// IsReady reports whether the next call of Next reads no input, so that the data of earlier packets
// stay valid.
func (m *Merge) IsReady() bool {
	return len(m.pending) == 0 && (!m.returned || m.heads[0].IsReady())
}

// advance returns the next block of a file, or nil at its end or if it is late.
func (m *Merge) advance(f *File) (b *Block, late bool) {
	b, err := f.Next()
	switch {
	case errors.Is(err, errLate):
		return nil, true
	case err != nil:
		if !errors.Is(err, io.EOF) {
			m.errs = append(m.errs, err)
		}
		return nil, false
	case b.Kind == Described:
		b.Interface.Number = m.interfaces
		m.interfaces++
	}
	return b, false
}

// heads is a heap (heap.Interface) of files by the order of their current packets.
type heads []*File

func (h heads) Len() int { return len(h) }

func (h heads) Less(i, j int) bool {
	if a, b := h[i].block.order, h[j].block.order; a != b {
		return a < b
	}
	return h[i].Index < h[j].Index
}

func (h heads) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *heads) Push(f any)   { *h = append(*h, f.(*File)) }

func (h *heads) Pop() any {
	old := *h
	f := old[len(old)-1]
	*h = old[:len(old)-1]
	return f
}
