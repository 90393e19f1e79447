package capture

import (
	"sync"

	"github.com/xdpcap/xdpcap/capture"
)

// When the outputs have forgotten a source, another source gets its index, and its account begins
// with the counts of all earlier sources with that index. predecessors has these counts. It is
// empty unless interfaces come and go, or the filter changes.
type predecessors struct {
	mu  sync.Mutex
	all []predecessor // by index
}

// A predecessor has the counts of all forgotten sources with an index.
type predecessor struct {
	sources       int    // their number
	arrival       uint32 // of the last of them
	before, after forms  // the sum of their counts, without the last of them and with it
}

// forms are an account as accountsNow reports it, and as it is at the end. They differ if a
// recorder still has to decide about packets.
type forms struct{ now, end capture.Account }

func (f *forms) of(atEnd bool) capture.Account {
	if atEnd {
		return f.end
	}
	return f.now
}

// earlier is the sum of all sources that are forgotten and whose indexes have other sources now.
type earlier struct {
	Sources int `json:"sources"`
	AccountKeys
}

// forget keeps the account of a source that all outputs have forgotten, as the first output has it.
func (r *captureRun) forget(source int) {
	all, err := r.accountsNow()
	if err != nil {
		return // the end of the session returns the same error
	}
	account := all[0].Of(source)
	past := forms{account, account}
	if r.recorder != nil {
		past.now.NotRecorded = r.recorder.Overwritten()[source]
		if _, ok := r.Outputs[0].Live.(recorderOutput); ok {
			past.end = r.recorder.AccountOf(source, account)
		}
	}
	arrival, p := r.session.Sources()[source].Arrival, &r.predecessors
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.all) <= source {
		p.all = append(p.all, predecessor{})
	}
	old := p.all[source]
	p.all[source] = predecessor{sources: old.sources + 1, arrival: arrival, before: old.after, after: past}
}

// divide divides accounts into those of the sources themselves and the sum of their predecessors.
// sources were read after the accounts. atEnd is true for accounts of the end.
func (p *predecessors) divide(accounts capture.Accounts, sources []capture.Source, atEnd bool) (own capture.Accounts, past earlier) {
	own = accounts.Plus(make(capture.Accounts, len(sources)))
	p.mu.Lock()
	defer p.mu.Unlock()
	var sum capture.Account
	for i := range min(len(p.all), len(sources)) {
		last := &p.all[i]
		before, n := last.after.of(atEnd), last.sources
		if sources[i].Arrival == last.arrival { // the index has no new source yet
			before, n = last.before.of(atEnd), last.sources-1
		}
		if own[i].Seen < before.Seen { // the accounts were read before the predecessor was forgotten
			before = own[i]
		}
		own[i] = own[i].Minus(before)
		sum.Add(before)
		past.Sources += n
	}
	past.AccountKeys = newAccountKeys(sum)
	return own, past
}
