package meter

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/cilium/ebpf"
)

const (
	agingInterval = 10 * time.Second // the time between two scans of a table
	quietTime     = time.Minute      // an entry whose count stays the same for so long may be evicted
)

// Gone replaces the names of interfaces when entries are evicted from a table.
const Gone = "gone"

// Aging selects the entries to evict from a table of counters, so that there is room for new ones:
// senders and containers create ever new keys, such as EtherTypes and interfaces, and the kernel
// never removes an entry. Only one goroutine may use it at a time.
type Aging[K comparable] struct {
	Keep     int // this many entries may stay, however quiet
	lastScan time.Time
	seen     map[K]sighting // at the last scan
}

// A sighting is an entry's count, and the first scan that found this count.
type sighting struct {
	count uint64
	since time.Time
}

// EvictQuiet removes entries from a table with the given number of values per key: those whose
// counts have not risen for a minute, the smallest first, until Aging.Keep entries are left. It
// scans the table at most every 10 seconds. count returns an entry's count, and false if the entry
// must stay. evicted is called with each removed entry.
func EvictQuiet[K comparable, V any](a *Aging[K], now time.Time, table *ebpf.Map, slots int,
	count func(K, []V) (n uint64, mayEvict bool), evicted func(K, []V)) error {
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
	for _, key := range a.quietKeys(now, counts) {
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
		evicted(key, values)
	}
	return nil
}

// isDue reports whether it is time for the next scan.
func (a *Aging[K]) isDue(now time.Time) bool { return now.Sub(a.lastScan) >= agingInterval }

// quietKeys notes the counts of all entries, and returns the keys to evict: the quiet entries with
// the smallest counts, until Keep entries are left.
func (a *Aging[K]) quietKeys(now time.Time, table map[K]uint64) []K {
	a.lastScan = now
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
