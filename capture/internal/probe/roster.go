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

// maxHooks is how many hooks a session can have at a time where sources come and go. Each source
// takes an account for every CPU, some 120 bytes.
const maxHooks = 1024

// maxSources is how many indexes there are for sources, because Facts.Source has 16 bits.
const maxSources = math.MaxUint16

// keptGone is how many forgotten sources keep their indexes, so that the name of a source that has
// gone recently can still be found.
const keptGone = 256

// A Roster lists the sources of a session by their indexes. The programs identify a source by its
// slot, an index into their arrays. If no source comes or goes, both numbers are the same.
// Otherwise the arrays have a fixed size: the slot of a source that has gone is free for another
// source once all its records were read, and its index later, once the outputs have forgotten it:
// see member. The slots of one hook are consecutive: the hook's number times perHook, and the next
// ones. A source's Came then numbers the sources in the order in which they came, from 1. Any
// goroutine may call the methods.
type Roster struct {
	Programs Programs // set by New of a Sampler

	perHook int             // slots of each hook; 0 = no source comes or goes
	tenants []atomic.Uint64 // by slot: its source, as Came << 32 | index; 0 = none
	come    atomic.Int64    // how many sources have come: the Came of the last one
	leaving atomic.Int64    // how many sources have final accounts and are not forgotten

	adding sync.Mutex // held while hooks are attached, until their sources are listed

	mu    sync.Mutex
	taken []bool // by number of a hook: it is in use
	hooks int    // how many hooks there are, if perHook is 0
	used  int    // slots below this number have had a source

	lost map[int][]uint64 // by slot: packets that its programs so far had lost on each CPU

	podOf func(index int) packet.Pod // nil = no interface has a pod
	all   []member                   // by index

	departed []int // sources with final accounts that TakeDeparted has not returned
	vacant   []int // indexes whose sources all outputs have forgotten
}

// Programs are the programs of a session in the kernel, by the slots of their sources.
type Programs interface {
	// Counted reads the counts of a slot.
	Counted(slot int) (ProgramCounts, error)
	// EndAll detaches hooks, and returns when all their programs have ended.
	EndAll(hooks []Hook) error
}

// NewRoster returns a roster of the sources of these hooks if perHook is 0. Otherwise sources come
// and go, and it returns an empty roster with perHook slots for each hook. podOf returns the pod
// that an interface belongs to; nil = no interface has a pod.
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
	r.tenants, r.taken = make([]atomic.Uint64, maxHooks*r.perHook), make([]bool, maxHooks)
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

// Has reports whether a source has a property.
func (r *Roster) Has(property func(*packet.Source) bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.all, func(m member) bool { return property(&m.Source) })
}

// Describe updates the sources after the hooks of NewRoster were attached: modes and programs are
// known only then.
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

// Since returns the sources that have come after the first `come` ones, in the order in which they
// came.
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

// Leaving returns how many sources have final accounts and are not forgotten by the outputs.
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

// Add attaches hooks and lists their sources. After an error, the caller ends the sources that are
// listed. If the first hook could not be attached, no source is listed, unless its programs have
// seen packets, because the interface went right after they were attached. Attaching takes some 10
// ms. Meanwhile the methods do not wait, except Tenant for a source that is not listed yet. Only
// one goroutine at a time may call Add and Exchange.
func (r *Roster) Add(hooks []Hook, numbers []int, c Origin) (sources []int, err error) {
	r.adding.Lock()
	defer r.adding.Unlock()
	before, err := r.countsOf(hooks, numbers)
	if err != nil {
		return nil, err
	}
	if err = hooks[0].Attach(); err == nil {
		err = AttachAll(hooks[1:])
	} else if seen, failed := r.endAndCompare(hooks[:1], numbers, before); !seen {
		return nil, errors.Join(err, failed)
	}
	return r.listAll(hooks, numbers, c, before), err
}

// Exchange lists the new sources of an attached hook after exchange has replaced its programs by
// those of another number. After an error no source is listed.
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

// listAll lists the sources of hooks, whose programs run, and returns their indexes. before has the
// counts of their slots before they came.
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

// list gives a source its index, a new one or a vacant one, and makes it the tenant of its slot.
// The caller holds mu.
func (r *Roster) list(m *member) {
	m.Came = int(r.come.Load()) + 1
	if isFull := len(r.all) == maxSources; isFull || len(r.vacant) > keptGone {
		m.Place, r.vacant = r.vacant[0], r.vacant[1:] // Reserve ensures that there is one
		m.earlier = *r.all[m.Place].final
		r.all[m.Place] = *m
	} else {
		m.Place = len(r.all)
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

// Ways describes how packets of some sources are captured, for messages: "XDP native", or labels
// such as "eth0@ingress".
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
