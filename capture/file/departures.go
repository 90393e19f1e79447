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
	leaving map[int]*departure // by source: Forget was called, and has not returned true yet

	// These belong to the goroutine that writes.
	retired map[int]bool // sources whose statistics were written, until a new source has the index
	reports []report     // the statistics in the current file
}

// A departure is a source whose interface has gone.
type departure struct {
	after      int64 // the position in the queue after its last packet
	isReported bool
}

// A report is a block of statistics in the current file.
type report struct {
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
	gone, ok := d.leaving[source]
	if !ok {
		if e, ok := f.enc.(pcapngEncoder); ok {
			e.describeAdded(f.queue.openChunk) // describes its interface even if it had no packets
		}
		d.leaving[source] = &departure{after: f.queue.openChunk.end()}
		f.queue.wake()
		return false
	}
	if gone.isReported {
		delete(d.leaving, source)
	}
	return gone.isReported
}

// due returns the sources that have gone, have no packets after a position in the queue, and have
// no statistics yet.
func (d *departures) due(written int64) (sources []int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for source, gone := range d.leaving {
		if !gone.isReported && gone.after <= written {
			sources = append(sources, source)
		}
	}
	slices.Sort(sources)
	return sources
}

// markReported records that the statistics of these sources were written.
func (d *departures) markReported(sources []int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, source := range sources {
		d.retired[source], d.leaving[source].isReported = true, true
	}
}

// reportDepartures writes the statistics of sources that have gone. If there is no room for them,
// they are written at the end of the file.
func (f *File) reportDepartures() error {
	d, s := &f.departures, &f.current.stream
	due := d.due(f.written)
	if len(due) == 0 {
		return nil
	}
	if err := s.seal(); err != nil {
		return err
	}
	own, err := f.accountsOfGone()
	if err != nil {
		return nil // the file is not the cause, and the end of the session returns the same error
	}
	blocks := f.statisticsOf(own, func(source int) bool { return slices.Contains(due, source) })
	before := s.size.Load()
	if err := s.insert(blocks); err != nil {
		return err
	}
	if len(blocks) > 0 && s.size.Load() == before {
		return nil // no room
	}
	for _, source := range due {
		account := own.Of(source)
		f.reported.At(source).Add(account)
		d.reports = append(d.reports, report{source, account, s.size.Load()})
	}
	d.markReported(due)
	return nil
}

// accountsOfGone returns the current accounts, which are final for sources whose interfaces have
// gone. Invalid is left out, because the end of the session may assign invalid records to other
// sources.
func (f *File) accountsOfGone() (capture.Accounts, error) {
	if f.description.Accounts == nil {
		return nil, nil
	}
	now, err := f.description.Accounts()
	if err != nil {
		return nil, err
	}
	own := now.Delivered(f.taken.Plus(f.current.stream.taken)).Minus(f.reported)
	for i := range own {
		own[i].Seen -= own[i].Invalid
		own[i].Invalid = 0
	}
	return own, nil
}

// onlyDescribed empties the accounts of sources that the current file does not describe, and of
// those whose statistics it already has: a new source may count under the same index before the
// file describes it.
func (f *File) onlyDescribed(own capture.Accounts) capture.Accounts {
	for source := range f.departures.retired {
		*own.At(source) = capture.Account{}
	}
	return f.current.stream.described(own)
}

// undoReports subtracts statistics that end after the first size bytes of the current file from
// `reported`, because they were truncated with the packets there. The statistics at the end of the
// file have them instead, so departure.isReported stays set.
func (f *File) undoReports(size int64) {
	d := &f.departures
	for n := len(d.reports) - 1; n >= 0 && d.reports[n].end > size; n-- {
		f.reported.At(d.reports[n].source).Subtract(d.reports[n].own)
		delete(d.retired, d.reports[n].source)
		d.reports = d.reports[:n]
	}
}

// splitHeader splits the first file's header into the parts from which later headers are made.
func (f *File) splitHeader() {
	f.head, f.described = nil, nil
	for rest := f.header; len(rest) > 0; {
		size, _, err := pcapng.BlockLength(rest, false)
		if err != nil {
			f.head = slices.Concat(f.head, rest) // not pcapng
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

// describe keeps the description of a source's interface, which is new under its index, for the
// header of the next file.
func (f *File) describe(source int, block []byte) {
	delete(f.departures.retired, source)
	if f.rotation.isSingle() {
		return
	}
	f.described = slices.DeleteFunc(f.described, func(d description) bool { return d.source == source })
	f.described = append(f.described, description{source, slices.Clone(block)})
}

// nextHeader returns the header of a later file and the sources whose interfaces it describes, in
// that order. It leaves out the sources that have gone.
func (f *File) nextHeader() (header []byte, sources []int) {
	header, sources = slices.Clone(f.head), []int{}
	f.described = slices.DeleteFunc(f.described, func(d description) bool { return f.departures.retired[d.source] })
	for _, d := range f.described {
		header, sources = append(header, d.block...), append(sources, d.source)
	}
	return header, sources
}
