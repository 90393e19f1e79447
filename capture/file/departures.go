package file

import "slices"

// departures are the sources of a session whose interfaces have gone. Their statistics are written
// as soon as the file has all their packets.
type departures struct {
	known   int          // how many of Description.Left were taken notice of
	waiting []int        // those whose packets have not all been written
	told    map[int]bool // those whose statistics are written
}

// tellDepartures writes the statistics of sources that have gone.
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
	var blocks []byte
	d.waiting = slices.DeleteFunc(d.waiting, func(i int) bool {
		if i >= len(s.taken) || all[i].Captured != now[i].Captured {
			return false
		}
		blocks = append(blocks, f.statisticsWithout(own, func(other int) bool { return other != i })...)
		if d.told == nil {
			d.told = make(map[int]bool)
		}
		d.told[i] = true
		return true
	})
	return s.insert(blocks)
}
