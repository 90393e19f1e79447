package capfile

import (
	"cmp"
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
	heads      []*File // files whose current block is a packet, in the order of these packets
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
		f := m.heads[0]
		b, late := m.advance(f)
		if b != nil && b.Kind != Packet {
			return b
		}
		m.returned = false
		if isFirst := b != nil && (len(m.heads) == 1 || byOrder(f, m.heads[1]) < 0); !isFirst {
			m.heads = slices.Delete(m.heads, 0, 1)
			switch {
			case b != nil:
				m.insert(f)
			case late:
				m.pending = append(m.pending, f)
			}
		}
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
			m.insert(f)
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

// insert adds a file whose current block is a packet to heads.
func (m *Merge) insert(f *File) {
	at, _ := slices.BinarySearchFunc(m.heads, f, byOrder)
	m.heads = slices.Insert(m.heads, at, f)
}

// byOrder compares the current packets of two files.
func byOrder(a, b *File) int {
	return cmp.Or(cmp.Compare(a.block.order, b.block.order), cmp.Compare(a.Index, b.Index))
}
