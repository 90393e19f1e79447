package capture

import (
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/xdpcap/xdpcap/capture/internal/account"
	"github.com/xdpcap/xdpcap/internal/attach"
	"github.com/xdpcap/xdpcap/internal/errkind"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A witness compares the packets that an interface has counted with those that the programs have
// seen there. An account only has the latter, so it adds up even if packets never reach the hook:
// tc may redirect packets past XDP, and a driver may lose the program.
//
// It counts a lower bound. Between an interface's count of a packet and its way through the hook
// some time may pass, in either order. So the interface is compared with what the programs have
// seen a second later, and its first reading comes after theirs: for a card, whose driver may count
// late, some seconds after. Where the kernel has joined packets to larger ones before the hook,
// each that was seen stands for all in it: at tc the program knows how many, elsewhere as many as
// possible.
type witness struct {
	names   *xdp.Names // nil in tests
	read    func(index int) (xdp.Counts, error)
	roster  *roster
	counted func() ([]account.Program, error)
	notice  func(error)

	mu      sync.Mutex
	sources map[int]*passing // by Source.Place
}

// A passing is the comparison for one source. Counts are cumulative.
type passing struct {
	came           int
	late           int    // after how many more readings the comparison begins
	base, seenBase uint64 // of the interface and of the programs, when the comparison began
	last, seen     uint64 // of both, at the previous reading
	before         uint64 // packets that had passed by before the comparison began
	by             uint64 // at least so many have passed by since
	noticed        bool
	sight          attach.Sight
}

// A lostProgram is a source whose driver has lost the program, and at least how many packets have
// passed by since.
type lostProgram struct {
	Source
	packets uint64
}

// lateReadings is how many readings, one a second, a card's driver may need until it has counted
// the packets from before the session.
const lateReadings = 3

// mostJoined is how many packets one that was seen may stand for, besides those that its program
// counts. In native mode XDP comes before GRO.
func mostJoined(src *Source) uint64 {
	if src.Hook == Ingress || src.Hook == Egress || src.Mode == Native {
		return 1
	}
	return 64
}

// isWitnessed reports whether all packets that an interface counts should pass a source's hook. A
// bridge counts packets that its own filters drop before the hook.
func isWitnessed(src *Source) bool {
	return src.Index != 0 && src.Driver != "bridge" && (src.Hook == XDP || src.Hook == Entry || src.Hook == Ingress || src.Hook == Egress)
}

func newWitness(k *sampler) (*witness, error) {
	names, err := xdp.OpenNames()
	if err != nil {
		return nil, err
	}
	return &witness{
		names: names, read: names.Counts, roster: k.roster, counted: k.accounts, notice: k.options.notice, sources: make(map[int]*passing),
	}, nil
}

func (w *witness) close() {
	if w != nil {
		w.names.Close()
	}
}

// look compares the last reading of the interfaces with what the programs have seen by now, and
// reads the interfaces again. It returns the sources whose program is to be attached again. If
// reading the programs' counters fails, the next call tries again.
func (w *witness) look() []lostProgram {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	sources, seen := w.seen()
	if seen == nil {
		return nil
	}
	w.compare(sources, seen)
	return w.note(sources, seen, w.readAll(sources))
}

// finish compares a last time, before the programs are detached. It waits for a moment without
// packets, so that all that were counted have passed the hook; on a busy interface the comparison
// with the reading before has to do.
func (w *witness) finish() {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	sources, before := w.seen()
	if before == nil {
		return
	}
	for range 3 {
		packets := w.readAll(sources)
		time.Sleep(2 * time.Millisecond)
		if maps.Equal(packets, w.readAll(sources)) {
			w.note(sources, before, packets)
			break
		}
	}
	if sources, seen := w.seen(); seen != nil {
		w.compare(sources, seen)
	}
}

// seen returns the sources that are there, by their places, and how many packets, at most, are in
// those that the programs have seen of each. seen is nil if that cannot be read.
func (w *witness) seen() (sources map[int]*Source, seen map[int]uint64) {
	sources = make(map[int]*Source)
	for i, src := range w.roster.sources() {
		if isWitnessed(&src) {
			sources[i] = &src
		}
	}
	for _, i := range w.roster.gone(false) {
		delete(sources, i)
	}
	accounts, err := w.counted()
	if err != nil {
		return nil, nil
	}
	seen = make(map[int]uint64)
	for i, src := range sources {
		seen[i] = mostJoined(src)*accounts[i].Seen + accounts[i].Joined
	}
	return sources, seen
}

// readAll returns what the interface of each source has counted. A source whose interface cannot be
// read is left out.
func (w *witness) readAll(sources map[int]*Source) map[int]xdp.Counts {
	all := make(map[int]xdp.Counts)
	for i, src := range sources {
		if c, err := w.read(src.Index); err == nil {
			all[i] = c
		}
	}
	return all
}

// note keeps a reading of the interfaces, and begins the comparison for a source that is new, whose
// interface has begun to count anew, or whose program is lost. It returns the latter. seen was read
// before it.
func (w *witness) note(sources map[int]*Source, seen map[int]uint64, packets map[int]xdp.Counts) (lost []lostProgram) {
	for i, c := range packets {
		src, n := sources[i], c.Received
		if src.Direction() == Out {
			n = c.Sent
		}
		p := w.sources[i]
		if p == nil {
			p = &passing{came: -1}
			w.sources[i] = p
		}
		isNew := p.came != src.Came
		if isNew {
			*p = passing{came: src.Came, before: p.before + p.by}
		}
		switch {
		case isOwnOfCard(src, c) && p.sight.Note(c, seen[i]):
			p.by = max(p.by, p.sight.Missed)
			lost = append(lost, lostProgram{*src, p.sight.Missed})
			p.begin(n, seen[i], c)
		case isNew || n < p.last:
			p.begin(n, seen[i], c)
		case p.late > 0:
			p.late--
			p.base, p.seenBase = n, p.seen
		}
		p.seen = seen[i]
		p.last = n
	}
	return lost
}

// isOwnOfCard reports whether a source is a program of ours that a card's driver runs.
func isOwnOfCard(src *Source, c xdp.Counts) bool {
	return c.IsHardware && src.Hook == XDP && src.Mode == Native
}

// begin begins the comparison with a reading of the interface, before which the programs had seen
// so many packets.
func (p *passing) begin(n, seen uint64, c xdp.Counts) {
	p.base, p.seenBase, p.before, p.by = n, seen, p.before+p.by, 0
	if p.late = 0; c.IsHardware {
		p.late = lateReadings
	}
}

// compare compares the last reading of the interfaces with what the programs have seen since.
func (w *witness) compare(sources map[int]*Source, seen map[int]uint64) {
	for i, src := range sources {
		p := w.sources[i]
		if p == nil || p.came != src.Came {
			continue
		}
		if counted, passed := p.last-p.base, seen[i]-p.seenBase; counted > passed {
			p.by = max(p.by, counted-passed)
		}
		if p.by > 0 && !p.noticed && !p.sight.IsDoubtful() {
			p.noticed = true
			w.notice(passedBy(src, p.before+p.by))
		}
	}
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
