package meter

import (
	"cmp"
	"slices"
	"time"
)

const (
	agingInterval = 10 * time.Second // how often a table is looked at
	quietTime     = time.Minute      // an entry that counts nothing for so long may be forgotten
)

// aging finds out which entries of a table of counters are to be forgotten, so that the table has
// room for what comes. Its entries depend on names and numbers that packets and interfaces bring
// with them, and nothing else ever removes one.
type aging[K comparable] struct {
	keep   int // so many entries may stay, however quiet they are
	looked time.Time
	seen   map[K]sighting
}

// A sighting is what an entry had counted when it was last seen to count.
type sighting struct {
	count uint64
	since time.Time
}

// isDue tells whether it is time to look at the table.
func (a *aging[K]) isDue(now time.Time) bool { return now.Sub(a.looked) >= agingInterval }

// look takes all entries of the table with what they have counted, and returns those to forget: of
// the entries that are quiet those that have counted least, as many as are more than `keep`.
func (a *aging[K]) look(now time.Time, table map[K]uint64) (forget []K) {
	a.looked = now
	before := a.seen
	a.seen = make(map[K]sighting, len(table))
	var quiet []K
	for key, count := range table {
		s, known := before[key]
		if !known || s.count != count {
			s = sighting{count, now}
		}
		a.seen[key] = s
		if now.Sub(s.since) >= quietTime {
			quiet = append(quiet, key)
		}
	}
	excess := min(len(table)-a.keep, len(quiet))
	if excess <= 0 {
		return nil
	}
	slices.SortFunc(quiet, func(a, b K) int { return cmp.Compare(table[a], table[b]) })
	return quiet[:excess]
}
