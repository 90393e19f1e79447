package probe

import (
	"fmt"

	"github.com/xdpcap/xdpcap/capture/packet"
)

// A member is one entry of a roster: the latest source with this index. After its interface has
// gone, its programs end (Leave), its account becomes final (Retire), and its index becomes vacant
// once the outputs have forgotten it (Forget).
type member struct {
	packet.Source
	card    Card
	slot    int
	before  ProgramCounts  // the counts of the slot before the source came
	earlier ProgramCounts  // the counts of the sources that had the index before
	ended   int64          // when its programs had ended, in CLOCK_MONOTONIC ns; 0 = they run
	final   *ProgramCounts // the final counts of the index; nil = programs run, or records are unread
}

// Leave records that the programs of some sources have ended by now, in CLOCK_MONOTONIC ns.
func (r *Roster) Leave(sources []int, now int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, i := range sources {
		if r.all[i].ended == 0 {
			r.all[i].ended = now
		}
	}
}

// Retire makes the account of a source final, and frees its slot, once its programs have ended and
// the reader has read all their records. passed is the time up to which the reader has read all
// records, in CLOCK_MONOTONIC ns, and counts are its counts of the source. A record that it did not
// find, as in the ring of a CPU that went offline, is lost.
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

// Gone returns the indexes of the sources whose programs have ended and whose accounts are final;
// with isOver, at the end of the session, also of those without a final account.
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
// order. The caller makes the outputs forget them.
func (r *Roster) TakeDeparted() (sources []int) {
	if r.leaving.Load() == 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	sources, r.departed = r.departed, nil
	return sources
}

// Forget makes the index of a departed source vacant. All outputs must have forgotten the source.
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
