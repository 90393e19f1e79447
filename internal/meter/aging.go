package meter

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/cilium/ebpf"
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

// forget takes the entries that are to be forgotten out of a table with so many slots for each key,
// where it is time to. count says what an entry has counted, and false of one that must stay; taken
// gets what an entry had counted when it was taken out.
func forget[K comparable, V any](a *aging[K], now time.Time, table *ebpf.Map, slots int,
	count func(K, []V) (uint64, bool), taken func([]V)) error {
	if !a.isDue(now) {
		return nil
	}
	counts := make(map[K]uint64)
	err := eachHash(table, slots, func(key K, values []V) {
		if n, ok := count(key, values); ok {
			counts[key] = n
		}
	})
	if err != nil {
		return err
	}
	for _, key := range a.look(now, counts) {
		values := make([]V, slots)
		var value any = &values
		if table.Type() == ebpf.Hash { // one value, not one for each CPU
			value = &values[0]
		}
		err := table.LookupAndDelete(key, value)
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		taken(values)
	}
	return nil
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
