package capture

import (
	"sync"

	"github.com/xdpcap/xdpcap/capture"
)

// predecessors has what the index of each source had counted before the source came. It is empty
// where no interface comes or goes.
type predecessors struct {
	mu  sync.Mutex
	all []predecessor // by index
}

// A predecessor stands for all sources with an index that the outputs have forgotten.
type predecessor struct {
	arrival       uint32 // of the last of them
	sources       int    // how many there were
	before, after forms  // what they had counted without the last of them, and with it
}

// forms are an account in the two forms that it has: of accountsNow, and of the end. They differ
// where a recorder decides about packets later.
type forms struct{ now, end capture.Account }

// An earlier stands for sources that have gone, and whose indexes others have.
type earlier struct {
	Sources int `json:"sources"`
	AccountKeys
}

// forget notes what the first output has counted for a source that all outputs have forgotten.
func (r *captureRun) forget(source int) {
	all, err := r.accountsNow()
	if err != nil {
		return // the end of the session meets the same error
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
	of := &p.all[source]
	of.arrival, of.sources, of.before, of.after = arrival, of.sources+1, of.after, past
}

// divide divides accounts into those of the present sources, which were read after them, and the
// sum of those that had the same indexes before.
func (p *predecessors) divide(accounts capture.Accounts, sources []capture.Source, of func(forms) capture.Account) (own capture.Accounts, past earlier) {
	own = accounts.Plus(make(capture.Accounts, len(sources)))
	p.mu.Lock()
	defer p.mu.Unlock()
	var sum capture.Account
	for i := range min(len(p.all), len(sources)) {
		last := &p.all[i]
		before, n := of(last.after), last.sources
		if sources[i].Arrival == last.arrival {
			before, n = of(last.before), last.sources-1
		}
		if own[i].Seen < before.Seen { // the accounts are older
			before = own[i]
		}
		own[i] = own[i].Minus(before)
		sum.Add(before)
		past.Sources += n
	}
	past.AccountKeys = newAccountKeys(sum)
	return own, past
}

// form is the form of the accounts now.
func (r *captureRun) form() func(forms) capture.Account {
	if r.accounts != nil {
		return end
	}
	return now
}

func now(f forms) capture.Account { return f.now }

func end(f forms) capture.Account { return f.end }
