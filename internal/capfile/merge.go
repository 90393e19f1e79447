package capfile

import (
	"container/heap"
	"errors"
	"io"
)

// A Merge hands out the blocks of several files: of the packets that are next in each file, the one
// with the earliest time, and of packets with the same time that of the file which was named first.
// What is out of order within a file stays so. Other blocks come as they stand in their file,
// between the same packets of it, and those before a file's first packet at the beginning. It
// belongs to one goroutine.
type Merge struct {
	fresh      []*File // whose first packet has not been reached
	heads      heads   // whose next block is a packet
	taken      bool    // the packet of heads[0] has been handed out
	interfaces int
	errs       []error
}

// NewMerge returns a Merge of these files, whose Place and whose interfaces' Number it sets.
func NewMerge(files []*File) *Merge {
	for i, f := range files {
		f.Place = i
	}
	return &Merge{fresh: files}
}

// Next returns the next block, which is valid until the call after it. A file with an error ends
// with what stands before it, while the others go on. The error is io.EOF at the end of all, or
// then has all errors of files.
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
	if m.taken {
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
		m.taken = false
	}
	if len(m.heads) == 0 {
		if len(m.errs) > 0 {
			return nil, errors.Join(m.errs...)
		}
		return nil, io.EOF
	}
	m.taken = true
	return &m.heads[0].block, nil
}

// IsReady tells whether Next will neither read nor move packets that it has handed out before.
func (m *Merge) IsReady() bool {
	return len(m.fresh) == 0 && (!m.taken || m.heads[0].IsReady())
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

// heads are files whose block is a packet, as package heap wants them.
type heads []*File

func (h heads) Len() int { return len(h) }

func (h heads) Less(i, j int) bool {
	if a, b := h[i].block.order, h[j].block.order; a != b {
		return a < b
	}
	return h[i].Place < h[j].Place
}

func (h heads) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *heads) Push(f any)   { *h = append(*h, f.(*File)) }

func (h *heads) Pop() any {
	old := *h
	f := old[len(old)-1]
	*h = old[:len(old)-1]
	return f
}
