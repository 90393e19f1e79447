package watch

import (
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/xdpcap/xdpcap/capture/internal/probe"
	"github.com/xdpcap/xdpcap/capture/packet"
	"github.com/xdpcap/xdpcap/internal/attach"
	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A Witness compares the packets that an interface has counted with the packets that the programs
// have seen there. An account has only the latter, so it adds up even if packets never reach the
// hook: tc may redirect packets past XDP, and a driver may lose the program.
//
// The difference is a lower bound. An interface counts a packet some time before or after the
// packet passes the hook. So the interface's count is compared with the programs' counts of a
// second later, and its first reading comes after theirs: some seconds after for a card, whose
// driver may count late. If GRO has joined packets before the hook, a super-packet counts as all
// packets in it: at tc their number, elsewhere the largest possible number.
//
// Close, Update, Finish and Fill do nothing if the Witness is nil, as in a session that has none.
type Witness struct {
	names   *xdp.Names // nil in tests
	read    func(index int) (xdp.Counts, error)
	listed  func() []packet.Source                // Roster.Sources
	gone    func(isOver bool) []int               // Roster.Gone; isOver: with all that ended
	counted func() ([]probe.ProgramCounts, error) // Roster.Accounts
	notice  func(error)

	mu      sync.Mutex
	sources map[int]*passing // by Source.Place
}

// A passing is the comparison for one source. Counts are cumulative. To pass by is to pass the
// interface, but not the hook.
type passing struct {
	came           int          // Source.Came, by which later sources of one Place are told apart
	late           int          // how many more readings come before the comparison begins
	base, seenBase uint64       // counts of the interface and of the programs, when the comparison began
	last, seen     uint64       // the same at the previous reading
	passedBefore   uint64       // packets that had passed by before the comparison began
	passedSince    uint64       // packets that have passed by since, a lower bound
	noticed        bool         // a notice was given
	sight          attach.Sight // detects that the driver has lost the program
}

// neverRead is passing.came before the first reading. No source has it.
const neverRead = -1

// A lostProgram is a source whose driver has lost the program.
type lostProgram struct {
	packet.Source
	Packets uint64 // that have passed by since, a lower bound
}

// ErrPassedBy is the kind of the Notice that packets did not pass the XDP hook.
var ErrPassedBy = errors.New("packets did not pass the hook")

// lateReadings is how many readings, one a second, a card's driver may need until it has counted
// the packets from before the session.
const lateReadings = 3

// mostJoined is the largest number of packets that one packet seen by a program stands for, without
// those that the program counts as Joined. In native mode it is 1, because XDP comes before GRO.
func mostJoined(src *packet.Source) uint64 {
	if src.Hook == packet.Ingress || src.Hook == packet.Egress || src.Mode == packet.Native {
		return 1
	}
	return 64 // packets in a super-packet of GRO
}

// isWitnessed reports whether all packets that an interface counts should pass a source's hook. A
// bridge counts packets that its own filters drop before the hook, and a function of a program, or
// a program at tc, need not run for all.
func isWitnessed(src *packet.Source) bool {
	isAtInterface := src.Index != 0 && src.Driver != "bridge"
	switch src.Hook {
	case packet.XDP, packet.Ingress, packet.Egress:
		return isAtInterface
	case packet.Entry:
		return isAtInterface && !src.TracesFunction() && src.TargetAt == packet.AtXDP
	}
	return false
}

// NewWitness returns a witness without readings.
func NewWitness(r *probe.Roster, notice func(error)) (*Witness, error) {
	names, err := xdp.OpenNames()
	if err != nil {
		return nil, err
	}
	return &Witness{
		names: names, read: names.Counts, listed: r.Sources, gone: r.Gone, counted: r.Accounts, notice: notice, sources: make(map[int]*passing),
	}, nil
}

// Close releases the witness.
func (w *Witness) Close() {
	if w != nil {
		w.names.Close()
	}
}

// Update compares the last reading of the interfaces with the present counts of the programs, and
// reads the interfaces again. It returns the sources whose program is to be attached again. If
// reading the programs' counters fails, the next call retries.
func (w *Witness) Update() []lostProgram {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	sources, seen := w.readSeen()
	if seen == nil {
		return nil
	}
	w.compare(sources, seen)
	return w.note(sources, seen, w.readAll(sources))
}

// quietAttempts is how many times Finish waits for a settleTime without packets.
const quietAttempts = 3

// Finish compares a last time, before the programs are detached. It waits for a settleTime without
// packets, so that all counted packets have passed the hook. If there is no such time, as on a busy
// interface, it compares with the previous reading.
func (w *Witness) Finish() {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	sources, before := w.readSeen()
	if before == nil {
		return
	}
	for range quietAttempts {
		packets := w.readAll(sources)
		time.Sleep(settleTime)
		if maps.Equal(packets, w.readAll(sources)) {
			w.note(sources, before, packets)
			break
		}
	}
	if sources, seen := w.readSeen(); seen != nil {
		w.compare(sources, seen)
	}
}

// readSeen returns the sources that have not gone, by their indexes, and an upper bound for the
// packets that the programs have seen of each. seen is nil if their counters cannot be read.
func (w *Witness) readSeen() (sources map[int]*packet.Source, seen map[int]uint64) {
	sources = make(map[int]*packet.Source)
	for i, src := range w.listed() {
		if isWitnessed(&src) {
			sources[i] = &src
		}
	}
	for _, i := range w.gone(true) {
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

// readAll returns the counters of each source's interface, without those that cannot be read.
func (w *Witness) readAll(sources map[int]*packet.Source) map[int]xdp.Counts {
	all := make(map[int]xdp.Counts)
	for i, src := range sources {
		if c, err := w.read(src.Index); err == nil {
			all[i] = c
		}
	}
	return all
}

// note stores a reading of the interfaces. It begins the comparison for a source that is new, whose
// interface counts from 0 again, or whose program is lost, and returns the lost programs. seen was
// read before packets.
func (w *Witness) note(sources map[int]*packet.Source, seen map[int]uint64, packets map[int]xdp.Counts) (lost []lostProgram) {
	for i, c := range packets {
		src, n := sources[i], c.Received
		if src.Direction() == packet.Out {
			n = c.Sent
		}
		p := w.sources[i]
		if p == nil {
			p = &passing{came: neverRead}
			w.sources[i] = p
		}
		isNew := p.came != src.Came
		if isNew {
			*p = passing{came: src.Came, passedBefore: p.passedBefore + p.passedSince}
		}
		switch {
		case isOwnOfCard(src, c) && p.sight.Note(c, seen[i]): // the driver has lost the program
			p.passedSince = max(p.passedSince, p.sight.Missed)
			lost = append(lost, lostProgram{*src, p.sight.Missed})
			p.begin(n, seen[i], c)
		case isNew || n < p.last:
			p.begin(n, seen[i], c)
		case p.late > 0:
			p.late--
			p.base, p.seenBase = n, p.seen // p.seen is of the previous reading: the driver counts late
		}
		p.seen = seen[i]
		p.last = n
	}
	return lost
}

// isOwnOfCard reports whether a source is a program of ours that a card's driver runs.
func isOwnOfCard(src *packet.Source, c xdp.Counts) bool {
	return c.IsHardware && src.Hook == packet.XDP && src.Mode == packet.Native
}

// begin begins the comparison. n is the interface's count, and seen how many packets the programs
// had seen before n was read.
func (p *passing) begin(n, seen uint64, c xdp.Counts) {
	p.base, p.seenBase = n, seen
	p.passedBefore, p.passedSince = p.passedBefore+p.passedSince, 0
	if p.late = 0; c.IsHardware {
		p.late = lateReadings
	}
}

// compare compares the last reading of the interfaces with the programs' counts of now, and gives a
// notice of the first packets of a source that passed by.
func (w *Witness) compare(sources map[int]*packet.Source, seen map[int]uint64) {
	for i, src := range sources {
		p := w.sources[i]
		if p == nil || p.came != src.Came {
			continue
		}
		if counted, passed := p.last-p.base, seen[i]-p.seenBase; counted > passed {
			p.passedSince = max(p.passedSince, counted-passed)
		}
		if p.passedSince > 0 && !p.noticed && !p.sight.IsDoubtful() {
			p.noticed = true
			w.notice(passedBy(src, p.passedBefore+p.passedSince))
		}
	}
}

// passedBy is the Notice about packets that passed by.
func passedBy(src *packet.Source, packets uint64) error {
	switch src.Hook {
	case packet.Ingress:
		return fmt.Errorf("%s has received at least %d packets that did not pass its tc ingress, such as those that XDP drops or redirects", src.Name, packets)
	case packet.Egress:
		return fmt.Errorf("%s has sent at least %d packets that did not pass its egress, such as those of XDP programs and of AF_XDP", src.Name, packets)
	}
	return message.Errorf(ErrPassedBy, "%s has received at least %d packets that did not pass its XDP hook, such as those that tc redirects to it", src.Name, packets)
}

// Fill fills in Account.PassedBy of the accounts by source.
func (w *Witness) Fill(accounts packet.Accounts) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, p := range w.sources {
		if i < len(accounts) {
			accounts[i].PassedBy = p.passedBefore + p.passedSince
		}
	}
}
