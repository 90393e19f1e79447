package capfile

import (
	"container/heap"
	"errors"
	"io"
)

// A Merge returns the blocks of several files. Its next packet is the earliest of each file's next
// packets; if times are equal, the file that was named first comes first. Packets that are out of
// order within a file stay so. Other blocks keep their position between the packets of their file,
// and the blocks before a file's first packet come at the beginning. A Merge belongs to one
// goroutine.
type Merge struct {
	fresh      []*File // files whose first packet was not reached yet
	heads      heads   // files whose next block is a packet
	returned   bool    // the packet of heads[0] has been returned
	interfaces int
	errs       []error
}

// NewMerge returns a Merge of these files. It sets their Index, and the Number of their interfaces.
func NewMerge(files []*File) *Merge {
	for i, f := range files {
		f.Index = i
	}
	return &Merge{fresh: files}
}

// Next returns the next block, which is valid until the call after it. A file with an error ends
// before the error, and the other files continue. At the end of all files the error is io.EOF, or
// joins the errors of the files.
func (m *Merge) Next() (*Block, error) {
	for len(m.fresh) > 0 {
		f := m.fresh[0]
		if b := m.advance(f); b != nil && b.Kind != Packet {
			return b, nil
		} else if b != nil {
			heap.Push(&m.heads, f)
		}
		m.fresh = m.fresh[1:]
	}
	if m.returned {
		switch b := m.advance(m.heads[0]); {
		case b == nil:
			heap.Pop(&m.heads)
		case b.Kind == Packet:
			if len(m.heads) > 1 {
				heap.Fix(&m.heads, 0)
			}
		default:
			return b, nil
		}
		m.returned = false
	}
	if len(m.heads) == 0 {
		if len(m.errs) > 0 {
			return nil, errors.Join(m.errs...)
		}
		return nil, io.EOF
	}
	m.returned = true
	return &m.heads[0].block, nil
}

// IsReady reports whether Next can return without reading, and without moving the data of earlier
// packets.
func (m *Merge) IsReady() bool {
	return len(m.fresh) == 0 && (!m.returned || m.heads[0].IsReady())
}

// advance returns the next block of a file, or nil at its end.
func (m *Merge) advance(f *File) *Block {
	b, err := f.Next()
	switch {
	case err != nil:
		if !errors.Is(err, io.EOF) {
			m.errs = append(m.errs, err)
		}
		return nil
	case b.Kind == Described:
		b.Interface.Number = m.interfaces
		m.interfaces++
	}
	return b
}

// heads are files whose next block is a packet. They implement heap.Interface.
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
