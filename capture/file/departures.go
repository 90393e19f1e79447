package file

import (
	"slices"
	"sync"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/pcapng"
)

// departures are the sources of a session whose interfaces have gone. Their statistics are written
// once the current file has all their packets.
type departures struct {
	mu      sync.Mutex
	leaving map[int]*departure // by source: what Forget was asked for, and has not returned true for

	// These belong to the goroutine that writes.
	gone map[int]bool // sources whose statistics were written, and that have no successor yet
	told []told       // the statistics in the current file
}

// A departure is a source whose interface has gone.
type departure struct {
	after  int64 // the position in the queue after its last packet
	isTold bool
}

// A told is a block of statistics in the current file.
type told struct {
	source int
	own    capture.Account
	end    int64 // offset in the file after the block and those written with it
}

// A description is the Interface Description Block of a source, for the header of the next file.
type description struct {
	source int
	block  []byte
}

// Forget implements [capture.Forgetter]. It returns true once the source's packets and statistics
// were written.
func (f *File) Forget(source int) bool {
	d := &f.departures
	d.mu.Lock()
	defer d.mu.Unlock()
	l, ok := d.leaving[source]
	if !ok {
		if e, ok := f.writer.enc.(pcapngEncoder); ok {
			e.look(f.writer.queue.open) // its interface is described, even without packets
		}
		d.leaving[source] = &departure{after: f.writer.queue.open.end()}
		f.writer.queue.wake()
		return false
	}
	if l.isTold {
		delete(d.leaving, source)
	}
	return l.isTold
}

// due returns the sources that have gone and all of whose packets are in front of a position in the
// queue.
func (d *departures) due(written int64) (sources []int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for source, l := range d.leaving {
		if !l.isTold && l.after <= written {
			sources = append(sources, source)
		}
	}
	slices.Sort(sources)
	return sources
}

// end notes that the statistics of sources were written.
func (d *departures) end(sources []int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, source := range sources {
		d.gone[source], d.leaving[source].isTold = true, true
	}
}

// tellDepartures writes the statistics of sources that have gone. Where they have no room, the end
// of the file makes some.
func (f *File) tellDepartures() error {
	d, s := &f.departures, &f.present.stream
	due := d.due(f.written)
	if len(due) == 0 {
		return nil
	}
	if err := s.seal(); err != nil {
		return err
	}
	own, err := f.ofDeparted()
	if err != nil {
		return nil // the end of the session meets the same error
	}
	blocks := f.statisticsOf(own, func(source int) bool { return slices.Contains(due, source) })
	before := s.size.Load()
	if err := s.insert(blocks); err != nil || len(blocks) > 0 && s.size.Load() == before {
		return err
	}
	for _, source := range due {
		own := own.Of(source)
		f.told.At(source).Add(own)
		d.told = append(d.told, told{source, own, s.size.Load()})
	}
	d.end(due)
	return nil
}

// ofDeparted returns the current accounts; those of sources whose interfaces have gone are final.
// Invalid is left out, because the end of the session may assign invalid records to other sources.
func (f *File) ofDeparted() (capture.Accounts, error) {
	if f.description.Accounts == nil {
		return nil, nil
	}
	now, err := f.description.Accounts()
	if err != nil {
		return nil, err
	}
	own := now.Delivered(f.taken.Plus(f.present.stream.taken)).Minus(f.told)
	for i := range own {
		own[i].Seen -= own[i].Invalid
		own[i].Invalid = 0
	}
	return own, nil
}

// ofDescribed empties the accounts of sources that the current file does not describe, and of those
// whose statistics it already has: their indexes may count packets of their successors.
func (f *File) ofDescribed(own capture.Accounts) capture.Accounts {
	for source := range f.departures.gone {
		*own.At(source) = capture.Account{}
	}
	return f.present.stream.described(own)
}

// takeBackTold undoes the bookkeeping of statistics behind the first size bytes of the current
// file: they were cut off with the packets there.
func (f *File) takeBackTold(size int64) {
	d := &f.departures
	for n := len(d.told) - 1; n >= 0 && d.told[n].end > size; n-- {
		f.told.At(d.told[n].source).Subtract(d.told[n].own)
		delete(d.gone, d.told[n].source)
		d.told = d.told[:n]
	}
}

// splitHeader keeps the parts of the first file's header, for those of the later ones.
func (f *File) splitHeader() {
	f.head, f.described = nil, nil
	for rest := f.header; len(rest) > 0; {
		size, _, err := pcapng.BlockLength(rest, false)
		if err != nil {
			f.head = slices.Concat(f.head, rest) // of another format
			return
		}
		block, err := pcapng.ParseBlock(rest[:size], false)
		if err == nil && block.Type == pcapng.TypeInterface {
			f.described = append(f.described, description{len(f.described), rest[:size]})
		} else {
			f.head = slices.Concat(f.head, rest[:size])
		}
		rest = rest[size:]
	}
}

// describe notes the description of a source's interface, for the header of the next file.
func (f *File) describe(source int, block []byte) {
	delete(f.departures.gone, source)
	if f.rotation.isSingle() {
		return
	}
	f.described = slices.DeleteFunc(f.described, func(d description) bool { return d.source == source })
	f.described = append(f.described, description{source, slices.Clone(block)})
}

// nextHeader returns what a later file begins with, and the sources whose interfaces it describes,
// in their order: those that have not gone.
func (f *File) nextHeader() (header []byte, sources []int) {
	header, sources = slices.Clone(f.head), []int{}
	f.described = slices.DeleteFunc(f.described, func(d description) bool { return f.departures.gone[d.source] })
	for _, d := range f.described {
		header, sources = append(header, d.block...), append(sources, d.source)
	}
	return header, sources
}
