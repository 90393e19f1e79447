package meter

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/cilium/ebpf"
)

const (
	agingInterval = 10 * time.Second // how often to look at a table
	quietTime     = time.Minute      // an entry whose count stays the same for so long may be forgotten
)

// Gone is the name of interfaces whose entries were removed from a table.
const Gone = "gone"

// Aging decides which entries of a table of counters to remove, so that new ones find room. The
// names and numbers in the entries' keys come from packets and interfaces, and the kernel never
// removes an entry. One goroutine uses it at a time.
type Aging[K comparable] struct {
	Keep   int // this many entries may stay, however quiet
	looked time.Time
	seen   map[K]sighting
}

// A sighting is an entry's count, and when the entry was first seen with it.
type sighting struct {
	count uint64
	since time.Time
}

// Forget removes entries from a table with the given slots per key: entries whose counters have not
// risen for a minute, the smallest first, until Aging.Keep are left. It does nothing if it was
// called within the last 10 seconds. count returns an entry's count, and false if the entry must
// stay. taken is called with each removed entry.
func Forget[K comparable, V any](a *Aging[K], now time.Time, table *ebpf.Map, slots int,
	count func(K, []V) (uint64, bool), taken func(K, []V)) error {
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
		taken(key, values)
	}
	return nil
}

// isDue reports whether it is time to look at the table.
func (a *Aging[K]) isDue(now time.Time) bool { return now.Sub(a.looked) >= agingInterval }

// look takes the counts of all entries and returns the keys to remove: the quiet entries with the
// smallest counts, until Keep entries are left.
func (a *Aging[K]) look(now time.Time, table map[K]uint64) (forget []K) {
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
	excess := min(len(table)-a.Keep, len(quiet))
	if excess <= 0 {
		return nil
	}
	slices.SortFunc(quiet, func(a, b K) int { return cmp.Compare(table[a], table[b]) })
	return quiet[:excess]
}
