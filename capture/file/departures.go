package file

import (
	"slices"

	"github.com/xdpcap/xdpcap/internal/pcapng"
)

// departures are the sources of a session whose interfaces have gone. Their statistics are written
// as soon as the file has all their packets.
type departures struct {
	known   int              // how many of Description.Left were taken notice of
	waiting []int            // those whose packets have not all been written, or whose statistics had no room
	told    map[int]position // where their statistics are
}

// A position is in one of the files of a series.
type position struct {
	file int // Place.Number
	byte int64
}

// isTold tells whether the statistics of a source are in the files already. They are not if the
// file was full: then they were taken back, or never written.
func (f *File) isTold(source int) bool {
	at, ok := f.departures.told[source]
	return ok && (at.file < f.place.Number || at.byte <= f.present.stream.size.Load())
}

// tellDepartures writes the statistics of sources that have gone. Where they have no room, the end
// of the file makes some.
func (f *File) tellDepartures() error {
	d, s := &f.departures, &f.present.stream
	if f.description.Left == nil || f.description.Accounts == nil {
		return nil
	}
	left := f.description.Left(d.known)
	d.known, d.waiting = d.known+len(left), append(d.waiting, left...)
	if len(d.waiting) == 0 {
		return nil
	}
	now, err := f.description.Accounts()
	if err != nil {
		return nil // the end of the session meets the same error
	}
	all := f.taken.Plus(s.taken)
	own := now.Delivered(all).Minus(f.told)
	isComplete := func(i int) bool { return i < len(s.taken) && all[i].Captured == now[i].Captured }
	var blocks []byte
	for _, i := range d.waiting {
		if isComplete(i) {
			blocks = append(blocks, f.statisticsWithout(own, func(other int) bool { return other != i })...)
		}
	}
	before := s.size.Load()
	if err := s.insert(blocks); err != nil || len(blocks) > 0 && s.size.Load() == before {
		return err
	}
	if d.told == nil {
		d.told = make(map[int]position)
	}
	d.waiting = slices.DeleteFunc(d.waiting, func(i int) bool {
		if !isComplete(i) {
			return false
		}
		d.told[i] = position{f.place.Number, s.size.Load()}
		return true
	})
	return nil
}

// abridge leaves only the name of an interface that has gone in the header of the next file, which
// has none of its packets. Where interfaces come and go for weeks, their descriptions would
// otherwise become most of each file.
func (f *File) abridge() {
	if _, ok := f.writer.enc.(pcapngEncoder); !ok || len(f.departures.told) == 0 {
		return
	}
	var header []byte
	source := 0
	for rest := f.header; len(rest) > 0; {
		size, _, err := pcapng.BlockLength(rest, false)
		if err != nil {
			return
		}
		block, err := pcapng.ParseBlock(rest[:size], false)
		if err != nil {
			return
		}
		rest = rest[size:]
		kept := block.Raw
		if block.Type == pcapng.TypeInterface {
			if at, ok := f.departures.told[source]; ok && at.file < f.place.Number {
				i, _ := pcapng.ParseInterface(block)
				kept = pcapng.AppendInterface(nil, &pcapng.Interface{Name: i.Name, LinkType: i.LinkType, SnapLen: i.SnapLen})
			}
			source++
		}
		header = append(header, kept...)
	}
	f.header = header
}
