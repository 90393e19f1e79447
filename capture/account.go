package capture

import (
	"fmt"
	"math"
	"sync"
)

// An Account counts what happened to every packet that reached a source. All numbers are cumulative
// since Open. Once the session has ended,
//
//	Seen = FilteredOut + NotSampled + Lost + Invalid + Captured
//
// holds exactly; if it ever does not, Unexplained is the difference. Before the end, Seen also
// counts packets that are on their way: Pending says how many.
type Account struct {
	Seen        uint64 // packets that reached the sampling program
	FilteredOut uint64 // the filter did not match
	NotSampled  uint64 // skipped by a sampling option, or came after Options.Count was reached
	Lost        uint64 // found no room in the ring, or were not taken by an output
	NotRecorded uint64 // part of NotSampled: a Recorder had them in memory and did not write them
	NotTaken    uint64 // part of Lost: an output did not take them
	Invalid     uint64 // records that failed the check of their cookie and length
	Captured    uint64 // handed over
	Bytes       uint64 // len(Packet.Data) of the captured packets

	// Missed is the sum of the weights of the packets that found no room in a ring. It is counted
	// only where packets have different weights: with Options.SampleVerdicts or Adaptive.
	Missed uint64

	// Unexplained is Seen minus the sum of the other numbers, and may be negative. It is 0 until
	// the session has ended. After that it is 0 unless something has gone wrong, which is then also
	// a Notice.
	Unexplained int64

	// Unstamped counts the captured packets that have the host's time stamp because the card gave
	// none of the kind that Options.Stamp asks for.
	Unstamped uint64
}

// Dropped is how many packets found no room in the ring.
func (a Account) Dropped() uint64 { return a.Lost - a.NotTaken }

// Matched is how many packets the filter accepted.
func (a Account) Matched() uint64 { return a.Seen - min(a.Seen, a.FilteredOut) }

// Pending is how many packets are on their way, in a ring or to an output. Of all numbers only Seen
// counts them. Once the session has ended, no packet is on its way, and Pending is 0.
func (a Account) Pending() uint64 {
	if a.Unexplained != 0 {
		return 0
	}
	return a.Seen - min(a.Seen, a.Explained())
}

// Equation is the account in words, as files show it, and a capture at SIGUSR1 and at its end.
func (a Account) Equation() string {
	text := fmt.Sprintf("%d seen = %d filtered out + %d not sampled + %d lost + %d invalid + %d captured",
		a.Seen, a.FilteredOut, a.NotSampled, a.Lost, a.Invalid, a.Captured)
	switch {
	case a.Unexplained > 0:
		text += fmt.Sprintf(" + %d unexplained", a.Unexplained)
	case a.Unexplained < 0:
		text += fmt.Sprintf(" - %d unexplained", -a.Unexplained)
	case a.Pending() > 0:
		text += fmt.Sprintf(" + %d pending", a.Pending())
	}
	return text
}

// unexplained is the account in words if it does not add up, and otherwise "".
func (a Account) unexplained() string {
	if a.Unexplained == 0 {
		return ""
	}
	return a.Equation()
}

// Explained is how many packets are in the numbers other than Seen.
func (a Account) Explained() uint64 {
	return a.FilteredOut + a.NotSampled + a.Lost + a.Invalid + a.Captured
}

// counters returns all numbers except Unexplained, for loops that treat them alike.
func (a *Account) counters() [11]*uint64 {
	return [...]*uint64{
		&a.Seen, &a.FilteredOut, &a.NotSampled, &a.Lost, &a.NotRecorded, &a.NotTaken, &a.Invalid, &a.Captured, &a.Bytes,
		&a.Unstamped, &a.Missed,
	}
}

func (a *Account) add(b Account) {
	more := b.counters()
	for i, n := range a.counters() {
		*n += *more[i]
	}
	a.Unexplained += b.Unexplained
}

func (a *Account) subtract(b Account) {
	less := b.counters()
	for i, n := range a.counters() {
		*n -= *less[i]
	}
	a.Unexplained -= b.Unexplained
}

// Accounts has one Account for each source, in the order of Session.Sources.
type Accounts []Account

// Of returns the account of a source. It is empty if no packet has come from it yet.
func (as Accounts) Of(source int) (a Account) {
	if source < len(as) {
		a = as[source]
	}
	return a
}

// At returns the account of a source for the caller to change. It adds the accounts up to it.
func (as *Accounts) At(source int) *Account {
	for len(*as) <= source {
		*as = append(*as, Account{})
	}
	return &(*as)[source]
}

// sized returns a copy with at least this many accounts: sources may be added while packets come.
func (as Accounts) sized(sources int) Accounts {
	own := make(Accounts, max(len(as), sources))
	copy(own, as)
	return own
}

// Total is the sum over the sources.
func (as Accounts) Total() (sum Account) {
	for _, a := range as {
		sum.add(a)
	}
	return sum
}

// Delivered returns the accounts of an output that took only some of the packets that the session
// captured. The others are counted as lost. Only Captured and Bytes of taken are used.
func (as Accounts) Delivered(taken Accounts) Accounts {
	own := make(Accounts, len(as))
	for i, a := range as {
		took := taken.Of(i)
		refused := a.Captured - took.Captured
		a.Lost += refused
		a.NotTaken += refused
		a.Captured, a.Bytes = took.Captured, took.Bytes
		own[i] = a
	}
	return own
}

// SoFar returns the accounts of an output while the session runs, with Captured, Bytes and NotTaken
// from taken. The caller must read taken before the session's accounts. Packets on their way to the
// output are counted only in Seen, like those in the rings.
func (as Accounts) SoFar(taken Accounts) Accounts {
	own := as.sized(len(taken))
	for i := range own {
		a, t := &own[i], taken.Of(i)
		a.Captured, a.Bytes = t.Captured, t.Bytes
		a.Lost += t.NotTaken
		a.NotTaken += t.NotTaken
	}
	return own
}

// Minus returns the accounts minus before, source by source.
func (as Accounts) Minus(before Accounts) Accounts {
	rest := as.sized(len(before))
	for i, b := range before {
		rest[i].subtract(b)
	}
	return rest
}

// Plus returns the sums, source by source.
func (as Accounts) Plus(more Accounts) Accounts {
	sums := as.sized(len(more))
	for i := range more {
		sums[i].add(more[i])
	}
	return sums
}

// A programAccount is what the programs in the kernel counted for a source. Its Captured, Bytes and
// Invalid are 0, because only the reader can count them.
type programAccount struct {
	Account
	sent uint64 // records that found room in a ring

	// unread is the part of Lost that was sent before the source's interface went, and that the
	// reader never found.
	unread uint64
}

// miss counts as lost what the reader has not found of a source that sends no more: counts are the
// reader's, which has read everything.
func (p *programAccount) miss(counts Account) {
	read := counts.Captured + counts.NotSampled + counts.Invalid
	p.unread = p.sent - min(p.sent, read)
	p.Lost += p.unread
}

// A ledger keeps what the reader counts of each source and joins it with what the programs count.
// Its methods belong to the reader's goroutine, except accounts, which any goroutine may call.
type ledger struct {
	limit    uint64   // packets to capture
	counts   Accounts // Captured, Bytes, Invalid, and NotSampled for what came after the limit
	captured uint64   // the sum of Captured over counts

	mu        sync.Mutex
	published Accounts // a copy of counts, for accounts
	final     Accounts // nil until the session has ended
}

// newLedger returns a ledger that takes at most limit packets; 0 = no limit.
func newLedger(sources int, limit uint64) *ledger {
	if limit == 0 {
		limit = math.MaxUint64
	}
	return &ledger{limit: limit, counts: make(Accounts, sources), published: make(Accounts, sources)}
}

// grow makes room for sources that have come.
func (l *ledger) grow(sources int) {
	if more := sources - len(l.counts); more > 0 {
		l.counts = append(l.counts, make(Accounts, more)...)
	}
}

// take counts a record that passed the check. It returns whether to hand over the packet: false
// once the limit is reached.
func (l *ledger) take(source, bytes int) bool {
	a := &l.counts[source]
	if l.isFull() {
		a.NotSampled++
		return false
	}
	a.Captured++
	a.Bytes += uint64(bytes)
	l.captured++
	return true
}

// unstamped counts a packet that was taken but has no stamp from the card.
func (l *ledger) unstamped(source int) { l.counts[source].Unstamped++ }

// isFull tells whether the limit is reached.
func (l *ledger) isFull() bool { return l.captured == l.limit }

// reject counts a record that failed the check. It counts for the source that the record names, or
// for the first source if that one does not exist. The record may name the wrong source, so close
// assigns such records again.
func (l *ledger) reject(source int) {
	if source >= len(l.counts) {
		source = 0
	}
	l.counts.At(source).Invalid++
}

// publish makes the counts visible to accounts.
func (l *ledger) publish() {
	l.mu.Lock()
	l.published = append(l.published[:0], l.counts...)
	l.mu.Unlock()
}

// read returns what the reader has counted of a source.
func (l *ledger) read(source int) Account {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.published.Of(source)
}

// close makes the accounts final. Every record that a program sent was taken, or is invalid, or is
// lost because the reader never found it in a ring. An invalid record may name the wrong source, so
// it is counted for a source that misses one. Then each account adds up to what its program has
// seen. If the program or the kernel has miscounted, or a ring held records that no program sent,
// the difference is Unexplained.
func (l *ledger) close(programs []programAccount) {
	l.publish()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.final = l.join(programs)
	missing := make([]uint64, len(programs)) // records that are neither taken nor invalid
	stray := uint64(0)                       // invalid records that their sources did not send
	for i, p := range programs {
		a, c := &l.final[i], l.published.Of(i)
		a.Lost -= p.unread // they are among the missing ones
		missing[i] = p.sent - min(p.sent, c.Captured+c.NotSampled)
		own := min(c.Invalid, missing[i])
		a.Invalid, missing[i] = own, missing[i]-own
		stray += c.Invalid - own
	}
	for i := range programs {
		a := &l.final[i]
		found := min(stray, missing[i])
		stray -= found
		a.Invalid += found
		a.Lost += missing[i] - found
	}
	if stray > 0 {
		l.final.At(0).Invalid += stray
	}
	for i := range l.final {
		a := &l.final[i]
		a.Unexplained = int64(a.Seen - a.Explained())
	}
}

// accounts adds up the published counts and the programs' current counts, which read returns. The
// kernel copies the counters one after the other while the programs run, and seen first. A packet
// may therefore be in the copy of a later counter and not in that of seen, so Seen is raised to the
// sum of the others.
func (l *ledger) accounts(read func() ([]programAccount, error)) (Accounts, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.final != nil {
		return append(Accounts(nil), l.final...), nil
	}
	programs, err := read()
	if err != nil {
		return nil, err
	}
	sums := l.join(programs)
	for i := range sums {
		sums[i].Seen = max(sums[i].Seen, sums[i].Explained())
	}
	return sums, nil
}

// join adds up both sides. The caller holds mu.
func (l *ledger) join(programs []programAccount) Accounts {
	sums := make(Accounts, len(programs))
	for i, p := range programs {
		sums[i] = p.Account
		sums[i].add(l.published.Of(i))
	}
	return sums
}
