package capture

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/xdpcap/xdpcap/internal/errkind"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// ErrPassedBy is the kind of the Notice that an interface has received packets which did not pass
// its XDP hook.
var ErrPassedBy = errors.New("packets did not pass the hook")

// A witness compares the packets that an interface has counted with those that the programs have
// seen there. An account only has the latter, so it adds up even if packets never reach the hook:
// tc may redirect packets past XDP, and a driver may lose the program.
//
// It counts a lower bound. A packet that the interface has counted may still be on its way to the
// hook, so it is compared with what the programs have seen a second later; and where the kernel has
// joined packets to larger ones before the hook, each that was seen stands for as many as possible.
type witness struct {
	names   *xdp.Names
	roster  *roster
	counted func() ([]programAccount, error)
	notice  func(error)

	mu      sync.Mutex
	sources map[int]*passing // by Source.Place
}

// A passing is the comparison for one source. Counts are cumulative.
type passing struct {
	came           int
	base, seenBase uint64 // of the interface and of the programs, when the comparison began
	last           uint64 // of the interface, at the previous reading
	before         uint64 // packets that had passed by when the interface's counters were last reset
	by             uint64 // at least so many have passed by since
	noticed        bool
}

// mostJoined is how many packets one that was seen may stand for: of GRO, and at egress of GSO. In
// native mode XDP comes before GRO.
func mostJoined(src *Source) uint64 {
	switch {
	case src.Hook == XDP && src.Mode == Native:
		return 1
	case src.Hook == Egress:
		return 1024
	}
	return 64
}

// isWitnessed tells whether an interface's counters say what should pass a source's hook. A bridge
// counts packets that its own filters drop before the hook.
func isWitnessed(src *Source) bool {
	return src.Index != 0 && src.Driver != "bridge" && (src.Hook == XDP || src.Hook == Entry || src.Hook == Ingress || src.Hook == Egress)
}

func newWitness(k *sampler) (*witness, error) {
	names, err := xdp.OpenNames()
	if err != nil {
		return nil, err
	}
	return &witness{names: names, roster: k.roster, counted: k.accounts, notice: k.options.notice, sources: make(map[int]*passing)}, nil
}

func (w *witness) close() {
	if w != nil {
		w.names.Close()
	}
}

// look compares what the interfaces had counted at the last call with what the programs have seen
// by now. isLast says that no packet that they have counted is on its way any more. An error of a
// reading is no reason to end a session: the next call tries again.
func (w *witness) look(isLast bool) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	sources := w.roster.sources()
	gone := make(map[int]bool)
	for _, i := range w.roster.gone() {
		gone[i] = true
	}
	packets := w.read(sources)
	accounts, err := w.counted()
	if err != nil {
		return
	}
	for i := range min(len(sources), len(accounts)) {
		src, n := &sources[i], packets[i]
		if !isWitnessed(src) || gone[i] || n == nil {
			continue
		}
		p := w.sources[i]
		if p == nil || p.came != src.Came {
			// What the programs see from now on may have been counted already: the bound is lower.
			w.sources[i] = &passing{came: src.Came, base: *n, last: *n, seenBase: accounts[i].Seen}
			continue
		}
		if *n < p.last {
			*p = passing{came: p.came, base: *n, last: *n, seenBase: accounts[i].Seen, before: p.before + p.by, noticed: p.noticed}
			continue
		}
		if isLast {
			p.last = *n
		}
		counted, seen := p.last-p.base, mostJoined(src)*(accounts[i].Seen-p.seenBase)
		p.last = *n
		if counted > seen {
			p.by = max(p.by, counted-seen)
		}
		if p.by > 0 && !p.noticed {
			p.noticed = true
			w.notice(passedBy(src, p.before+p.by))
		}
	}
}

// read returns how many packets the interface of each source has counted; nil = not known.
func (w *witness) read(sources []Source) []*uint64 {
	all := make([]*uint64, len(sources))
	for i := range sources {
		if !isWitnessed(&sources[i]) {
			continue
		}
		received, sent, err := w.names.Packets(sources[i].Index)
		if err != nil {
			continue
		}
		all[i] = &received
		if sources[i].Direction() == Out {
			all[i] = &sent
		}
	}
	return all
}

// finish compares a last time, before the programs are detached. It waits for a moment without
// packets, so that none is on its way to a hook; on a busy interface the comparison of the last
// second has to do.
func (w *witness) finish() {
	if w == nil {
		return
	}
	for range 3 {
		sources := w.roster.sources()
		before := w.read(sources)
		time.Sleep(2 * time.Millisecond)
		isQuiet := true
		for i, n := range w.read(sources) {
			isQuiet = isQuiet && (n == nil || before[i] != nil && *n == *before[i])
		}
		if isQuiet {
			w.look(true)
			return
		}
	}
	w.look(false)
}

// passedBy is the Notice about packets that passed by.
func passedBy(src *Source, packets uint64) error {
	switch src.Hook {
	case Ingress:
		return fmt.Errorf("%s has received at least %d packets that did not pass its tc ingress, such as those that XDP drops or redirects", src.Name, packets)
	case Egress:
		return fmt.Errorf("%s has sent at least %d packets that did not pass its egress, such as those of XDP programs and of AF_XDP", src.Name, packets)
	}
	return errkind.Errorf(ErrPassedBy, "%s has received at least %d packets that did not pass its XDP hook, such as those that tc redirects to it", src.Name, packets)
}

// fill fills in Account.PassedBy of the accounts by source.
func (w *witness) fill(accounts Accounts) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, p := range w.sources {
		if i < len(accounts) {
			accounts[i].PassedBy = p.before + p.by
		}
	}
}
