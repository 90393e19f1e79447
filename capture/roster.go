package capture

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
)

// maxComing is how many programs a session can have at a time where interfaces come and go. Each
// takes an account for every CPU, some 120 bytes.
const maxComing = 1024

// maxSources is how many sources a session can have, because Facts.Source has 16 bits.
const maxSources = math.MaxUint16

// A roster lists the sources of a session, in the order in which they came. The programs know a
// source by its slot, which is an index into their arrays. Where no interface comes or goes, both
// numbers are the same. Otherwise the arrays have a fixed size, and the slot of a source that has
// gone is given to another one once all its records were read. Any goroutine may call the methods.
type roster struct {
	perHook int             // how many slots a hook has; 0 = no interface comes or goes
	tenants []atomic.Uint32 // by slot: one more than the index of its source; 0 = it has none
	size    atomic.Int64    // len(all)

	adding sync.Mutex // held while hooks are attached, until their sources are listed

	mu    sync.Mutex
	taken []bool // by the number of a hook: it is in use
	hooks int    // without perHook: how many there are

	lost map[int][]uint64 // by slot: what its programs so far had lost on each CPU

	podOf func(index int) Pod // Options.PodOf; nil = none has a pod
	all   []member
	left  []int // the sources that have gone and whose accounts are final, in that order
}

// A member is a source of a roster.
type member struct {
	Source
	card   card
	slot   int
	before programAccount  // what was counted in the slot before the source came
	gone   int64           // when no program of it ran any more, in CLOCK_MONOTONIC ns; 0 = one runs
	final  *programAccount // what its program has counted; nil = that may still change, or be read
}

// newRoster returns a roster of the sources of these hooks, or an empty one where interfaces come
// and go.
func newRoster(o *Options, hooks []hook) *roster {
	r := &roster{hooks: len(hooks), podOf: o.PodOf}
	if !o.follows() {
		r.all = r.membersOf(hooks)
		for i := range r.all {
			r.all[i].slot = i
		}
		r.size.Store(int64(len(r.all)))
		return r
	}
	r.perHook = 1
	if slices.Contains(o.Hooks, Entry) && slices.Contains(o.Hooks, Exit) {
		r.perHook = 2
	}
	r.tenants, r.taken = make([]atomic.Uint32, maxComing*r.perHook), make([]bool, maxComing)
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

// has tells whether there is such a source.
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
		r.all[i].Source = m.Source
	}
}

// sources returns the sources from an index on.
func (r *roster) sources(from int) (sources []Source) {
	if int(r.size.Load()) <= from {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := from; i < len(r.all); i++ {
		sources = append(sources, r.all[i].Source)
	}
	return sources
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

// used returns how many slots have had a source.
func (r *roster) used() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	used := 0
	for i := range r.all {
		used = max(used, r.all[i].slot+1)
	}
	return used
}

// tenant returns the index of the source that has a slot. A program may send records before its
// source is listed, so it waits for that. It returns false if no source has the slot.
func (r *roster) tenant(slot int) (source int, ok bool) {
	if slot >= len(r.tenants) {
		return 0, false
	}
	i := r.tenants[slot].Load()
	if i == 0 {
		r.adding.Lock()
		i = r.tenants[slot].Load()
		r.adding.Unlock()
	}
	return int(i) - 1, i > 0
}

// noteLost notes what the programs that had a slot have lost on each CPU. None of them runs.
func (r *roster) noteLost(slot int, byCPU []uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost[slot] = byCPU
}

// lostBefore calls do for the sources of a range, with what had been lost in their slots on each
// CPU before they came.
func (r *roster) lostBefore(from, to int, do func(slot int, byCPU []uint64)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.all[from:to] {
		do(m.slot, r.lost[m.slot])
	}
}

// reserve takes a free number for each hook of an interface, and returns them. After an error it
// has taken none.
func (r *roster) reserve(hooks []hook) (numbers []int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	sources := len(r.all)
	for _, h := range hooks {
		sources += len(h.sources())
	}
	if sources > maxSources {
		return nil, fmt.Errorf("%d interfaces and programs have come, and a session can have %d in all: begin another one", len(r.all), maxSources)
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
func (r *roster) add(hooks []hook, numbers []int, arrival uint32, counted func(slot int) (programAccount, error), ended func([]hook) error) (sources []int, err error) {
	r.adding.Lock()
	defer r.adding.Unlock()
	var before []programAccount
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
			sources = append(sources, len(r.all))
			r.all = append(r.all, m)
			r.size.Store(int64(len(r.all)))
			r.tenants[m.slot].Store(uint32(len(r.all)))
		}
	}
	return sources, err
}

// haveSeen ends hooks, and tells whether their programs have seen packets. before is what was
// counted in their slots before they were attached.
func (r *roster) haveSeen(hooks []hook, numbers []int, before []programAccount, counted func(slot int) (programAccount, error), ended func([]hook) error) (bool, error) {
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

// leave notes that no program of some sources runs any more. now is CLOCK_MONOTONIC in ns.
func (r *roster) leave(sources []int, now int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, i := range sources {
		if r.all[i].gone == 0 {
			r.all[i].gone = now
		}
	}
}

// retire makes the account of a source final, and gives back its slot, if it has gone and the
// reader has read all that was sent up to then: passed is how far it has read, and counts has what
// it found. A record that it did not find, as in the ring of a CPU that went offline, is lost.
func (r *roster) retire(i int, passed int64, counts Account, counted func(slot int) (programAccount, error)) (retired bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := &r.all[i]
	if m.gone == 0 || m.final != nil || passed <= m.gone {
		return m.final != nil, nil
	}
	a, err := m.counted(counted)
	if err != nil {
		return false, err
	}
	a.miss(counts)
	m.final = &a
	r.tenants[m.slot].Store(0)
	r.left = append(r.left, i)
	return true, nil
}

// leftSince returns the sources that have gone and whose accounts are final, from an index on.
func (r *roster) leftSince(from int) []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.left[min(from, len(r.left)):])
}

// counted returns what the program of a source has counted: its slot's counters are read by a
// function, and were not zero when the source came.
func (m *member) counted(read func(slot int) (programAccount, error)) (programAccount, error) {
	if m.final != nil {
		return *m.final, nil
	}
	a, err := read(m.slot)
	if err != nil {
		return a, fmt.Errorf("read the counters of %s: %w", m.Label(), err)
	}
	a.subtract(m.before.Account)
	a.sent -= m.before.sent
	return a, nil
}

// accounts returns what the programs have counted for each source.
func (r *roster) accounts(counted func(slot int) (programAccount, error)) ([]programAccount, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]programAccount, len(r.all))
	for i := range r.all {
		var err error
		if all[i], err = r.all[i].counted(counted); err != nil {
			return nil, err
		}
	}
	return all, nil
}
