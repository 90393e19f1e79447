package probe

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/xdpcap/xdpcap/capture/packet"
)

// maxComing is how many programs a session can have at a time where interfaces come and go. Each
// takes an account for every CPU, some 120 bytes.
const maxComing = 1024

// maxSources is how many indexes there are for sources, because Facts.Source has 16 bits.
const maxSources = math.MaxUint16

// keptGone is how many sources that have gone and are forgotten keep their indexes, so that the
// latest of them can still be named.
const keptGone = 256

// A Roster lists the sources of a session by their indexes. The programs identify a source by its
// slot, which is an index into their arrays. If no interface comes or goes, both numbers are the
// same. Otherwise the arrays have a fixed size, and the slot of a source that has gone is given to
// another one once all its records were read. Its index is given to another one later: when the
// outputs have forgotten the source. Any goroutine may call the methods.
type Roster struct {
	Programs Programs // set by New of a Sampler

	perHook int             // how many slots a hook has; 0 = no interface comes or goes
	tenants []atomic.Uint64 // by slot: how many sources had come with its own, and in the lower 32 bits the index; 0 = it has none
	come    atomic.Int64    // how many sources have come
	leaving atomic.Int64    // how many sources have gone, with final accounts, and are not forgotten

	adding sync.Mutex // held while hooks are attached, until their sources are listed

	mu    sync.Mutex
	taken []bool // by the number of a hook: it is in use
	hooks int    // without perHook: how many there are
	used  int    // how many slots have had a source

	lost map[int][]uint64 // by slot: the packets that its programs so far had lost on each CPU

	podOf func(index int) packet.Pod // nil = no interface has a pod
	all   []member                   // by index

	// departed are the sources that have gone and whose accounts are final, until Run takes them,
	// and vacant the indexes of those that all outputs have forgotten.
	departed, vacant []int
}

// Programs are the programs of a session in the kernel, by the slots of their sources.
type Programs interface {
	// Counted reads the counts of a slot.
	Counted(slot int) (ProgramCounts, error)
	// EndAll detaches hooks, and returns when all their programs have ended.
	EndAll(hooks []Hook) error
}

// NewRoster returns a roster of the sources of these hooks, or, if interfaces come and go, an empty
// one with perHook slots for each hook; 0 = they do not. podOf returns the pod that an interface
// belongs to; nil = no interface has a pod.
func NewRoster(hooks []Hook, perHook int, podOf func(index int) packet.Pod) *Roster {
	r := &Roster{hooks: len(hooks), perHook: perHook, podOf: podOf}
	if perHook == 0 {
		r.all = r.membersOf(hooks)
		for i := range r.all {
			r.all[i].slot, r.all[i].Place = i, i
		}
		r.used = len(r.all)
		r.come.Store(int64(len(r.all)))
		return r
	}
	r.tenants, r.taken = make([]atomic.Uint64, maxComing*r.perHook), make([]bool, maxComing)
	r.lost = make(map[int][]uint64)
	return r
}

// membersOf returns the sources of hooks with their pods and cards.
func (r *Roster) membersOf(hooks []Hook) (all []member) {
	for _, h := range hooks {
		own := h.Sources()
		for i := range own {
			m := member{Source: own[i]}
			if r.podOf != nil {
				m.Pod = r.podOf(m.Index)
			}
			if asking, ok := h.(cardHook); ok && i == 0 {
				m.card = asking.Card()
			}
			all = append(all, m)
		}
	}
	return all
}

// Has reports whether there is such a source.
func (r *Roster) Has(is func(*packet.Source) bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.all, func(m member) bool { return is(&m.Source) })
}

// Describe updates the sources after their hooks were attached: their modes and programs are known
// only then. hooks are those of New.
func (r *Roster) Describe(hooks []Hook) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := 0
	for _, h := range hooks {
		for _, src := range h.Sources() {
			src.Pod, src.Place = r.all[i].Pod, i
			r.all[i].Source = src
			i++
		}
	}
}

// Sources returns the latest source of each index.
func (r *Roster) Sources() (sources []packet.Source) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.all {
		sources = append(sources, r.all[i].Source)
	}
	return sources
}

// Since returns the sources that have come after so many others, in that order.
func (r *Roster) Since(come int) []packet.Source {
	if int(r.come.Load()) <= come {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var later []packet.Source
	for i := range r.all {
		if r.all[i].Came > come {
			later = append(later, r.all[i].Source)
		}
	}
	slices.SortFunc(later, func(a, b packet.Source) int { return cmp.Compare(a.Came, b.Came) })
	return later
}

// Come returns how many sources have come.
func (r *Roster) Come() int { return int(r.come.Load()) }

// Leaving returns how many sources have gone, with final accounts, and are not forgotten.
func (r *Roster) Leaving() int { return int(r.leaving.Load()) }

// Size returns how many indexes there are.
func (r *Roster) Size() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.all)
}

// Source returns one source.
func (r *Roster) Source(i int) packet.Source {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all[i].Source
}

// Cards returns the sources' cards; nil if no source has metadata of a card.
func (r *Roster) Cards() (cards []Card) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.ContainsFunc(r.all, func(m member) bool { return m.card != Card{} }) {
		return nil
	}
	for i := range r.all {
		cards = append(cards, r.all[i].card)
	}
	return cards
}

// An Origin has the properties that sources share which come together: see packet.Source.
type Origin struct {
	Arrival uint32
	Filter  string
}

// Add attaches hooks and lists their sources. counted reads the present counts of a slot. After an
// error, the caller ends the sources that are listed. If the first hook could not be attached, no
// source is listed, unless the hook has seen packets, because its interface went right after it was
// attached: to find out, Add calls ended, which detaches it and waits until its program has ended.
// Attaching takes some 10 ms. Meanwhile the reader and others go on, and wait only for the source
// of a record that is not listed yet. Only one goroutine at a time may call it.
func (r *Roster) Add(hooks []Hook, numbers []int, c Origin) (sources []int, err error) {
	r.adding.Lock()
	defer r.adding.Unlock()
	before, err := r.countsOf(hooks, numbers)
	if err != nil {
		return nil, err
	}
	if err = AttachAll(hooks[:1]); err == nil {
		err = AttachAll(hooks[1:])
	} else if seen, failed := r.endAndCompare(hooks[:1], numbers, before); !seen {
		return nil, errors.Join(err, failed)
	}
	return r.listAll(hooks, numbers, c, before), err
}

// Exchange lists the sources of an attached hook after exchange has given it programs with another
// number. After an error nothing is listed.
func (r *Roster) Exchange(h Hook, number int, c Origin, exchange func() error) (sources []int, err error) {
	r.adding.Lock()
	defer r.adding.Unlock()
	hooks, numbers := []Hook{h}, []int{number}
	before, err := r.countsOf(hooks, numbers)
	if err == nil {
		err = exchange()
	}
	if err != nil {
		return nil, err
	}
	return r.listAll(hooks, numbers, c, before), nil
}

// countsOf returns the present counts of the slots of hooks.
func (r *Roster) countsOf(hooks []Hook, numbers []int) (counts []ProgramCounts, err error) {
	for i, h := range hooks {
		for j := range h.Sources() {
			a, err := r.Programs.Counted(numbers[i]*r.perHook + j)
			if err != nil {
				return nil, err
			}
			counts = append(counts, a)
		}
	}
	return counts, nil
}

// listAll lists the sources of hooks. before has the counts of their slots before they came.
func (r *Roster) listAll(hooks []Hook, numbers []int, c Origin, before []ProgramCounts) (sources []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, h := range hooks {
		for j, m := range r.membersOf([]Hook{h}) {
			m.slot, m.before, before = numbers[i]*r.perHook+j, before[0], before[1:]
			m.Arrival, m.Filter = c.Arrival, c.Filter
			r.list(&m)
			sources = append(sources, m.Place)
		}
	}
	return sources
}

// list gives a source an index, and its slot to the source. The caller holds mu.
func (r *Roster) list(m *member) {
	m.Came = int(r.come.Load()) + 1
	if m.Place = len(r.all); len(r.vacant) > keptGone || len(r.all) == maxSources {
		m.Place, r.vacant = r.vacant[0], r.vacant[1:]
		m.earlier = *r.all[m.Place].final
		r.all[m.Place] = *m
	} else {
		r.all = append(r.all, *m)
	}
	r.used = max(r.used, m.slot+1)
	r.come.Store(int64(m.Came))
	r.tenants[m.slot].Store(uint64(m.Came)<<32 | uint64(m.Place))
}

// endAndCompare ends hooks, and reports whether their programs have seen packets. before has the
// counts of their slots before they were attached.
func (r *Roster) endAndCompare(hooks []Hook, numbers []int, before []ProgramCounts) (bool, error) {
	if err := r.Programs.EndAll(hooks); err != nil {
		return false, err
	}
	for i, h := range hooks {
		for j := range h.Sources() {
			now, err := r.Programs.Counted(numbers[i]*r.perHook + j)
			if err != nil || now.Seen != before[0].Seen {
				return err == nil, err
			}
			before = before[1:]
		}
	}
	return false, nil
}

// Ways describes how packets of some sources are captured, as lists of labels and modes.
func (r *Roster) Ways(sources []int) string {
	var ways []string
	for _, i := range sources {
		src := r.Source(i)
		way := src.Label()
		if src.Hook == packet.XDP {
			way = fmt.Sprintf("XDP %v", src.Mode)
		}
		ways = append(ways, way)
	}
	return strings.Join(ways, ", ")
}
