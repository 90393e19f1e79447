package probe

import "fmt"

// Arrays returns the lengths of the programs' arrays: those by slot, and those by number of a hook.
func (r *Roster) Arrays() (slots, hooks int) {
	if r.perHook == 0 {
		return len(r.all), r.hooks
	}
	return len(r.tenants), len(r.taken)
}

// UsedSlots returns how many slots have had a source.
func (r *Roster) UsedSlots() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.used
}

// Tenant returns the index of the source that has a slot, and its Source.Came. A program may send
// records before Add has listed its source: Tenant waits for that. came is 0 if no source has the
// slot.
func (r *Roster) Tenant(slot int) (source, came int) {
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

// Slots returns the slots of the hook with a number.
func (r *Roster) Slots(number int) (slots []int) {
	for i := range r.perHook {
		slots = append(slots, number*r.perHook+i)
	}
	return slots
}

// RecordLost records how many packets the programs that had a slot so far have lost on each CPU.
// All of them have ended.
func (r *Roster) RecordLost(slot int, byCPU []uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost[slot] = byCPU
}

// LostBefore calls do for each source that has come after the first `come` ones: with its slot, and
// with what RecordLost has recorded for the slot.
func (r *Roster) LostBefore(come int, do func(slot int, byCPU []uint64)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.all {
		if m := &r.all[i]; m.Came > come {
			do(m.slot, r.lost[m.slot])
		}
	}
}

// Reserve takes a free number for each hook of an interface, and returns them. After an error it
// has taken none.
func (r *Roster) Reserve(hooks []Hook) (numbers []int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	sources := len(r.all) - len(r.vacant)
	for _, h := range hooks {
		sources += len(h.Sources())
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

// Free gives back numbers of hooks that were not added, or whose sources all have final accounts.
func (r *Roster) Free(numbers []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range numbers {
		r.taken[n] = false
	}
}
