package probe

import (
	"fmt"

	"github.com/xdpcap/xdpcap/capture/packet"
)

// A member is one entry of a roster: the source that has this index now, or had it last. When its
// interface has gone, its programs end (Leave), then its account becomes final (Retire), and when
// the outputs have forgotten it, its index is vacant.
type member struct {
	packet.Source
	card    Card
	slot    int
	before  ProgramCounts  // the counts of the slot before the source came
	earlier ProgramCounts  // the counts of the sources that had the index before
	ended   int64          // when its programs had ended, in CLOCK_MONOTONIC ns; 0 = one runs
	final   *ProgramCounts // the final counts of the index; nil = the counts may rise, or records are still unread
}

// Leave notes that no program of some sources runs any more. now is CLOCK_MONOTONIC in ns.
func (r *Roster) Leave(sources []int, now int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, i := range sources {
		if r.all[i].ended == 0 {
			r.all[i].ended = now
		}
	}
}

// Retire makes the account of a source final, and gives back its slot, if its programs
// have ended and the reader has read all their records. passed is the time up to which it has read
// all records, in CLOCK_MONOTONIC ns, and counts has its counts. A record that it did not find, as
// in the ring of a CPU that went offline, is lost.
func (r *Roster) Retire(i int, passed int64, counts packet.Account) (retired bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := &r.all[i]
	if m.ended == 0 || m.final != nil || passed <= m.ended {
		return m.final != nil, nil
	}
	a, err := r.counted(m)
	if err != nil {
		return false, err
	}
	a.Settle()
	a.AddUnread(counts)
	m.final = &a
	r.tenants[m.slot].Store(0)
	r.departed = append(r.departed, i)
	r.leaving.Add(1)
	return true, nil
}

// Gone returns the places of the sources that have gone and whose accounts are final. At the end of
// the session (isOver), it also returns those whose accounts are not final.
func (r *Roster) Gone(isOver bool) (sources []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.all {
		if r.all[i].final != nil || isOver && r.all[i].ended != 0 {
			sources = append(sources, i)
		}
	}
	return sources
}

// TakeDeparted returns the sources whose accounts have become final since the last call, in that
// order. The outputs must forget them.
func (r *Roster) TakeDeparted() (sources []int) {
	if r.leaving.Load() == 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	sources, r.departed = r.departed, nil
	return sources
}

// Forget lets another source have the index of a departed one, which all outputs have forgotten.
func (r *Roster) Forget(source int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leaving.Add(-1)
	r.vacant = append(r.vacant, source)
}

// counted returns the programs' counts of an index: the sum over all sources that have had it. The
// counters of a slot continue from one source to the next.
func (r *Roster) counted(m *member) (ProgramCounts, error) {
	if m.final != nil {
		return *m.final, nil
	}
	a, err := r.Programs.Counted(m.slot)
	if err != nil {
		return a, fmt.Errorf("read the counters of %s: %w", m.Label(), err)
	}
	a.AwaitsExit = m.AwaitsExit
	a.Continue(m.before, m.earlier)
	return a, nil
}

// Accounts returns the programs' counts for each index.
func (r *Roster) Accounts() ([]ProgramCounts, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]ProgramCounts, len(r.all))
	for i := range r.all {
		var err error
		if all[i], err = r.counted(&r.all[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}
