package capture

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/xdpcap/xdpcap/capture/internal/account"
)

// maxComing is how many programs a session can have at a time where interfaces come and go. Each
// takes an account for every CPU, some 120 bytes.
const maxComing = 1024

// maxSources is how many indexes there are for sources, because Facts.Source has 16 bits.
const maxSources = math.MaxUint16

// keptGone is how many sources that have gone and are forgotten keep their indexes, so that the
// latest of them can still be named.
const keptGone = 256

// A roster lists the sources of a session by their indexes. The programs know a source by its slot,
// which is an index into their arrays. Where no interface comes or goes, both numbers are the same.
// Otherwise the arrays have a fixed size, and the slot of a source that has gone is given to
// another one once all its records were read. Its index is given to another one later: when the
// outputs have forgotten the source. Any goroutine may call the methods.
type roster struct {
	perHook int             // how many slots a hook has; 0 = no interface comes or goes
	tenants []atomic.Uint64 // by slot: how many sources had come with its own, and in the lower 32 bits the index; 0 = it has none
	come    atomic.Int64    // how many sources have come
	leaving atomic.Int64    // how many sources have gone, with final accounts, and are not forgotten

	adding sync.Mutex // held while hooks are attached, until their sources are listed

	mu    sync.Mutex
	taken []bool // by the number of a hook: it is in use
	hooks int    // without perHook: how many there are
	used  int    // how many slots have had a source

	lost map[int][]uint64 // by slot: what its programs so far had lost on each CPU

	podOf func(index int) Pod // Options.PodOf; nil = none has a pod
	all   []member            // by index

	// departed are the sources that have gone and whose accounts are final, until Run asks for
	// them, and vacant the indexes of those that all outputs have forgotten.
	departed, vacant []int
}

// newRoster returns a roster of the sources of these hooks, or an empty one where interfaces come
// and go.
func newRoster(o *Options, hooks []hook) *roster {
	r := &roster{hooks: len(hooks), podOf: o.PodOf}
	if !o.follows() {
		r.all = r.membersOf(hooks)
		for i := range r.all {
			r.all[i].slot, r.all[i].Place = i, i
		}
		r.used = len(r.all)
		r.come.Store(int64(len(r.all)))
		return r
	}
	r.perHook = 1
	if slices.Contains(o.Hooks, Entry) && slices.Contains(o.Hooks, Exit) {
		r.perHook = 2
	}
	r.tenants, r.taken = make([]atomic.Uint64, maxComing*r.perHook), make([]bool, maxComing)
	r.lost = make(map[int][]uint64)
	return r
}

// membersOf returns the sources of hooks with their pods and cards.
func (r *roster) membersOf(hooks []hook) (all []member) {
	for _, h := range hooks {
		own := h.sources()
		for i := range own {
			m := member{Source: own[i]}
			if r.podOf != nil {
				m.Pod = r.podOf(m.Index)
			}
			if asking, ok := h.(interface{ card() card }); ok && i == 0 {
				m.card = asking.card()
			}
			all = append(all, m)
		}
	}
	return all
}

// arrays returns how many elements the programs' arrays by slot and by hook have.
func (r *roster) arrays() (slots, hooks int) {
	if r.perHook == 0 {
		return len(r.all), r.hooks
	}
	return len(r.tenants), len(r.taken)
}

// has reports whether there is such a source.
func (r *roster) has(is func(*Source) bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.all, func(m member) bool { return is(&m.Source) })
}

// describe takes over what is known of the sources after their hooks were attached: their modes and
// programs. hooks are those of newRoster.
func (r *roster) describe(hooks []hook) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, m := range r.membersOf(hooks) {
		r.all[i].Source, r.all[i].Place = m.Source, i
	}
}

// sources returns the latest source of each index.
func (r *roster) sources() (sources []Source) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.all {
		sources = append(sources, r.all[i].Source)
	}
	return sources
}

// since returns the sources that have come after so many others, in that order.
func (r *roster) since(come int) []Source {
	if int(r.come.Load()) <= come {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var later []Source
	for i := range r.all {
		if r.all[i].Came > come {
			later = append(later, r.all[i].Source)
		}
	}
	return inOrder(later)
}

// size returns how many indexes there are.
func (r *roster) size() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.all)
}

// source returns one source.
func (r *roster) source(i int) Source {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all[i].Source
}

// cards returns the sources' cards; nil if none is asked.
func (r *roster) cards() (cards []card) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.ContainsFunc(r.all, func(m member) bool { return m.card != card{} }) {
		return nil
	}
	for i := range r.all {
		cards = append(cards, r.all[i].card)
	}
	return cards
}

// usedSlots returns how many slots have had a source.
func (r *roster) usedSlots() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.used
}

// tenant returns the index of the source that has a slot, and how many sources had come with it. A
// program may send records before its source is listed, so it waits for that. came is 0 if no
// source has the slot.
func (r *roster) tenant(slot int) (source, came int) {
	if slot >= len(r.tenants) {
		return 0, 0
	}
	tenant := r.tenants[slot].Load()
	if tenant == 0 {
		r.adding.Lock()
		tenant = r.tenants[slot].Load()
		r.adding.Unlock()
	}
	return int(uint32(tenant)), int(tenant >> 32)
}

// noteLost notes what the programs that had a slot have lost on each CPU. None of them runs.
func (r *roster) noteLost(slot int, byCPU []uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost[slot] = byCPU
}

// lostBefore calls do for the sources that have come after so many others, with what had been lost
// in their slots on each CPU before they came.
func (r *roster) lostBefore(come int, do func(slot int, byCPU []uint64)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.all {
		if m := &r.all[i]; m.Came > come {
			do(m.slot, r.lost[m.slot])
		}
	}
}

// reserve takes a free number for each hook of an interface, and returns them. After an error it
// has taken none.
func (r *roster) reserve(hooks []hook) (numbers []int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	sources := len(r.all) - len(r.vacant)
	for _, h := range hooks {
		sources += len(h.sources())
	}
	if sources > maxSources {
		return nil, fmt.Errorf("of interfaces and programs that have come, %d are still in the outputs, and a session can have %d: begin another one",
			len(r.all)-len(r.vacant), maxSources)
	}
	for number := 0; number < len(r.taken) && len(numbers) < len(hooks); number++ {
		if !r.taken[number] {
			numbers = append(numbers, number)
		}
	}
	if len(numbers) < len(hooks) {
		return nil, fmt.Errorf("no room for %d more programs: a session can have %d at a time", len(hooks), len(r.taken))
	}
	for _, number := range numbers {
		r.taken[number] = true
	}
	return numbers, nil
}

// free gives back numbers of hooks that were not added.
func (r *roster) free(numbers []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range numbers {
		r.taken[n] = false
	}
}

// add attaches hooks and lists their sources. counted reads what was counted in a slot so far.
// After an error, the caller ends the sources that are listed. Nothing is listed if the first hook
// could not be attached, unless it has seen packets, because its interface went right after it was
// attached: to know that, add calls ended, which detaches it and waits until its program no longer
// runs. Attaching takes some 10 ms. Meanwhile the reader and others go on, and wait only for the
// source of a record that is not listed yet. Only one goroutine at a time may call it.
func (r *roster) add(hooks []hook, numbers []int, arrival uint32, counted func(slot int) (account.Program, error), ended func([]hook) error) (sources []int, err error) {
	r.adding.Lock()
	defer r.adding.Unlock()
	var before []account.Program
	for i, h := range hooks {
		for j := range h.sources() {
			a, err := counted(numbers[i]*r.perHook + j)
			if err != nil {
				return nil, err
			}
			before = append(before, a)
		}
	}
	if err = attachHooks(hooks[:1]); err == nil {
		err = attachHooks(hooks[1:])
	} else if seen, failed := r.haveSeen(hooks[:1], numbers, before, counted, ended); !seen {
		return nil, errors.Join(err, failed)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, h := range hooks {
		for j, m := range r.membersOf([]hook{h}) {
			m.slot, m.before, before = numbers[i]*r.perHook+j, before[0], before[1:]
			m.Arrival = arrival
			r.list(&m)
			sources = append(sources, m.Place)
		}
	}
	return sources, err
}

// list gives a source an index, and its slot to the source. The caller holds mu.
func (r *roster) list(m *member) {
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

// haveSeen ends hooks, and reports whether their programs have seen packets. before is what was
// counted in their slots before they were attached.
func (r *roster) haveSeen(hooks []hook, numbers []int, before []account.Program, counted func(slot int) (account.Program, error), ended func([]hook) error) (bool, error) {
	if err := ended(hooks); err != nil {
		return false, err
	}
	for i, h := range hooks {
		for j := range h.sources() {
			now, err := counted(numbers[i]*r.perHook + j)
			if err != nil || now.Seen != before[0].Seen {
				return err == nil, err
			}
			before = before[1:]
		}
	}
	return false, nil
}
