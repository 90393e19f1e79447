package follow

import "slices"

// An index finds the ways that a record fits. A way is in one bucket for each of its keys. A
// look-up does not take longer if many ways have the same key.
type index struct {
	buckets  map[key]*bucket
	regions  map[region][]*bucket
	occupied map[spot]int // the number of ways in the spot's bucket that have a record there
	found    []found      // the last result of find, whose memory the next call reuses
}

// A bucket has the ways with one key.
type bucket struct {
	key     key
	ways    []*Way    // in the order in which they were added; nil = removed
	first   int       // index of the first in ways that was not removed
	live    int       // number of ways that were not removed
	unclear []*Record // records that fit several ways: the last one of each place
	regions []region  // the regions that list it; nil = one of them is full, or it has no data
}

// A spot is a place at which a way of a bucket has a record. At one place a large packet may have
// records of several parts: start distinguishes them.
type spot struct {
	bucket *bucket
	place  uint32
	start  uint32
}

// A region is a part of a flow's sequence numbers. It lists the buckets with TCP data in it.
type region struct {
	flow   uint64
	number uint16
}

const (
	regionBits = 16 // of a sequence number, within a region

	// maxBuckets bounds the time for searching a region. Further segments in it are found only by
	// records with exactly the same data.
	maxBuckets = 1024

	maxUnclear = 16 // records in bucket.unclear
)

// found is a bucket with ways that a record fits: those without a record at its spot.
type found struct {
	bucket *bucket
	ways   int // their number
}

func newIndex() index {
	return index{buckets: make(map[key]*bucket), regions: make(map[region][]*bucket), occupied: make(map[spot]int)}
}

// spot returns a record's spot for the ways of a bucket.
func (b *bucket) spot(r *Record) spot {
	switch {
	case b.key.kind == byID:
		return spot{b, r.at, 0}
	case b.key.kind == bySequence && b.key != r.content && b.key.holds(&r.content):
		return spot{b, r.program, r.content.start}
	}
	return spot{b, r.program, b.key.start}
}

// find returns the ways that a record fits by one of its keys. The result is valid until the next
// call.
func (x *index) find(k *key, r *Record) []found {
	x.found = x.found[:0]
	switch k.kind {
	case byNothing:
	case bySequence:
		first, last := k.regions()
		for n := first; ; n++ {
			for _, b := range x.regions[region{k.flow, n}] {
				// Several of these regions may list a bucket. It is checked in the first of them.
				if from, _ := b.key.regions(); (from == n || n == first) && (k.holds(&b.key) || b.key.holds(k)) {
					x.check(b, r)
				}
			}
			if n == last {
				break
			}
		}
		if b := x.buckets[*k]; b != nil && len(b.regions) == 0 {
			x.check(b, r) // its regions were full
		}
	default:
		if b := x.buckets[*k]; b != nil {
			x.check(b, r)
		}
	}
	return x.found
}

// regions returns the first and the last region that the data overlap.
func (k *key) regions() (first, last uint16) {
	return uint16(k.start >> regionBits), uint16((k.end - 1) >> regionBits)
}

// check adds a bucket to the found ones if some of its ways have no record at the record's spot.
func (x *index) check(b *bucket, r *Record) {
	if n := b.live - x.occupied[b.spot(r)]; n > 0 {
		x.found = append(x.found, found{b, n})
	}
}

// areParts reports whether a record belongs to all ways that it fits: it fits at most one way, or
// the ways are different parts of its data.
func areParts(all []found) bool {
	for _, f := range all {
		if f.ways > 1 {
			return false
		}
	}
	if len(all) < 2 {
		return true
	}
	slices.SortFunc(all, func(a, b found) int { return int(int32(a.bucket.key.start - b.bucket.key.start)) })
	for i, f := range all[1:] {
		if int32(f.bucket.key.start-all[i].bucket.key.end) < 0 {
			return false
		}
	}
	return true
}

// way returns the newest way of a bucket that has no record at this record's spot; nil if all ways
// have one.
func (x *index) way(b *bucket, r *Record) *Way {
	s := b.spot(r)
	for _, w := range slices.Backward(b.ways[b.first:]) {
		if w != nil && !slices.Contains(w.spots, s) {
			return w
		}
	}
	return nil
}

// add adds a way to the bucket of a key.
func (x *index) add(w *Way, k *key) {
	if k.kind == byNothing {
		return
	}
	b := x.buckets[*k]
	if b == nil {
		b = &bucket{key: *k}
		x.buckets[*k] = b
		x.addRegions(b)
	}
	if slices.Contains(w.buckets, b) {
		return
	}
	b.ways, b.live = append(b.ways, w), b.live+1
	w.buckets = append(w.buckets, b)
	for _, r := range w.Records {
		x.occupy(w, b.spot(r))
	}
}

// addRegions adds a bucket with TCP data to its regions, so that larger and smaller records find
// it.
func (x *index) addRegions(b *bucket) {
	if b.key.kind != bySequence {
		return
	}
	first, last := b.key.regions()
	for n := first; ; n++ {
		at := region{b.key.flow, n}
		if len(x.regions[at]) == maxBuckets {
			b.regions = nil
			return
		}
		b.regions = append(b.regions, at)
		if n == last {
			break
		}
	}
	for _, at := range b.regions {
		x.regions[at] = append(x.regions[at], b)
	}
}

// extend adds a record to a way.
func (x *index) extend(w *Way, r *Record) {
	w.Records = append(w.Records, r)
	for _, b := range w.buckets {
		x.occupy(w, b.spot(r))
	}
}

// occupy records that a way has a record at a spot.
func (x *index) occupy(w *Way, s spot) {
	if !slices.Contains(w.spots, s) {
		w.spots = append(w.spots, s)
		x.occupied[s]++
	}
}

// remove removes a way from all buckets.
func (x *index) remove(w *Way) {
	for _, s := range w.spots {
		if x.occupied[s]--; x.occupied[s] == 0 {
			delete(x.occupied, s)
		}
	}
	for _, b := range w.buckets {
		b.remove(w)
		if b.live > 0 {
			continue
		}
		delete(x.buckets, b.key)
		for _, at := range b.regions {
			i := slices.Index(x.regions[at], b)
			if x.regions[at] = slices.Delete(x.regions[at], i, i+1); len(x.regions[at]) == 0 {
				delete(x.regions, at)
			}
		}
	}
	w.buckets, w.spots = nil, nil
}

// remove removes a way from the bucket, in short time because it is mostly the first one.
func (b *bucket) remove(w *Way) {
	b.ways[b.first+slices.Index(b.ways[b.first:], w)] = nil
	b.live--
	for b.first < len(b.ways) && b.ways[b.first] == nil {
		b.first++
	}
	if b.first > len(b.ways)/2 {
		b.ways = slices.Clone(b.ways[b.first:])
		b.first = 0
	}
}

// addUnclear adds a record that fits several ways.
func (b *bucket) addUnclear(r *Record) {
	s := b.spot(r)
	for i, other := range b.unclear {
		if b.spot(other) == s {
			b.unclear[i] = r
			return
		}
	}
	if len(b.unclear) < maxUnclear {
		b.unclear = append(b.unclear, r)
	}
}

// unclear returns the records that fit a way and others, at places where the way has no record.
func (x *index) unclear(w *Way) (all []*Record) {
	for _, b := range w.buckets {
		for _, r := range b.unclear {
			if r.Time >= w.Records[0].Time && !slices.Contains(w.spots, b.spot(r)) && !slices.Contains(all, r) {
				all = append(all, r)
			}
		}
	}
	return all
}
