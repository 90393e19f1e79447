package capture

import (
	"fmt"
	"math"
	"sync"
)

// An Account says what became of every packet that reached a source. All numbers are cumulative
// since Open. Once the session has ended,
//
//	Seen = FilteredOut + NotSampled + Lost + Invalid + Captured
//
// holds exactly, or Unexplained says by how much it does not. Before that, packets that are still
// in the rings are counted in Seen alone.
type Account struct {
	Seen        uint64 // packets that reached the sampling program
	FilteredOut uint64 // the filter did not match
	NotSampled  uint64 // passed over by a sampling option, or came after Options.Count was reached
	Lost        uint64 // found no room in the ring, or were not taken by an output
	NotRecorded uint64 // those of NotSampled that a Recorder had in memory and did not write
	NotTaken    uint64 // those of Lost that an output did not take
	Invalid     uint64 // records that failed the check of their cookie and length
	Captured    uint64 // handed over
	Bytes       uint64 // len(Packet.Data) of the captured packets

	// Missed is how many packets those of Lost stood for that found no room in a ring, the sum of
	// their weights, where packets have different ones: with Options.SampleVerdicts or Adaptive.
	Missed uint64

	// Unexplained is how many packets more the sampling program has counted as seen than are in the
	// other numbers together, or fewer where it is negative. It is 0 unless something has gone
	// wrong, which is a Notice then, and before the session has ended.
	Unexplained int64

	// Unstamped are those of the packets handed over that have the host's time stamp, because the
	// card gave none of the kind that was asked for: see Options.Stamp.
	Unstamped uint64
}

// Dropped is how many packets found no room in the ring.
func (a Account) Dropped() uint64 { return a.Lost - a.NotTaken }

// Matched is how many packets the filter accepted.
func (a Account) Matched() uint64 { return a.Seen - min(a.Seen, a.FilteredOut) }

// Equation is the account in words, as files and the end of a capture have it.
func (a Account) Equation() string {
	text := fmt.Sprintf("%d seen = %d filtered out + %d not sampled + %d lost + %d invalid + %d captured",
		a.Seen, a.FilteredOut, a.NotSampled, a.Lost, a.Invalid, a.Captured)
	switch {
	case a.Unexplained > 0:
		text += fmt.Sprintf(" + %d unexplained", a.Unexplained)
	case a.Unexplained < 0:
		text += fmt.Sprintf(" - %d unexplained", -a.Unexplained)
	}
	return text
}

// explained is how many packets are in the numbers other than Seen.
func (a *Account) explained() uint64 {
	return a.FilteredOut + a.NotSampled + a.Lost + a.Invalid + a.Captured
}

// counters are all numbers but Unexplained, for what is done with each of them alike.
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

// of returns the account of a source, which is empty where no packet has come from it yet.
func (as Accounts) of(source int) (a Account) {
	if source < len(as) {
		a = as[source]
	}
	return a
}

// at returns the account of a source, to be changed.
func (as *Accounts) at(source int) *Account {
	for len(*as) <= source {
		*as = append(*as, Account{})
	}
	return &(*as)[source]
}

// sized returns a copy with at least so many accounts: sources may be added while packets come.
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
// captured. The others are counted as lost. Of taken, only Captured and Bytes are used.
func (as Accounts) Delivered(taken Accounts) Accounts {
	own := make(Accounts, len(as))
	for i, a := range as {
		took := taken.of(i)
		refused := a.Captured - took.Captured
		a.Lost += refused
		a.NotTaken += refused
		a.Captured, a.Bytes = took.Captured, took.Bytes
		own[i] = a
	}
	return own
}

// SoFar returns the accounts of an output while the session runs: its Captured, Bytes and NotTaken
// are those of taken, which must have been read before the session's. Packets on their way to the
// output are in Seen alone, as those in the rings.
func (as Accounts) SoFar(taken Accounts) Accounts {
	own := as.sized(len(taken))
	for i, t := range taken {
		a := &own[i]
		a.Captured, a.Bytes = t.Captured, t.Bytes
		a.Lost += t.NotTaken
		a.NotTaken += t.NotTaken
	}
	return own
}

// soFar is SoFar of accounts that session reads.
func soFar(taken Accounts, session func() (Accounts, error)) (Accounts, error) {
	own, err := session()
	if err != nil || taken == nil {
		return own, err
	}
	return own.SoFar(taken), nil
}

// without returns what is left of the accounts when what before has is taken away.
func (as Accounts) without(before Accounts) Accounts {
	rest := as.sized(len(before))
	for i, b := range before {
		rest[i].subtract(b)
	}
	return rest
}

// plus returns the sums, source by source.
func (as Accounts) plus(more Accounts) Accounts {
	sums := as.sized(len(more))
	for i := range more {
		sums[i].add(more[i])
	}
	return sums
}

// refuse counts packets as lost that an output had taken, and that its disk has not.
func (as Accounts) refuse(taken Accounts) Accounts {
	own := as.sized(len(taken))
	for i, t := range taken {
		own[i].Captured -= t.Captured
		own[i].Bytes -= t.Bytes
		own[i].Lost += t.Captured
		own[i].NotTaken += t.Captured
	}
	return own
}

// passedOver returns the accounts of an output that took only some of the packets that the session
// captured, because it had been asked not to take more: the others are not sampled.
func (as Accounts) passedOver(taken Accounts) Accounts {
	own := as.Delivered(taken)
	for i := range own {
		refused := own[i].NotTaken - as[i].NotTaken
		own[i].NotSampled += refused
		own[i].Lost -= refused
		own[i].NotTaken -= refused
	}
	return own
}

// A programAccount is what the programs in the kernel counted for a source. Captured, Bytes and
// Invalid are 0 in it, because only the reader can count them.
type programAccount struct {
	Account
	sent uint64 // records that found room in a ring
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

// newLedger returns a ledger of so many packets at most; 0 = no limit.
func newLedger(sources int, limit uint64) *ledger {
	if limit == 0 {
		limit = math.MaxUint64
	}
	return &ledger{limit: limit, counts: make(Accounts, sources), published: make(Accounts, sources)}
}

// take counts a record that passed the check. It tells whether the packet is to be handed over,
// which is false once the limit has been reached.
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

// unstamped counts a packet that was taken and has no stamp of the card.
func (l *ledger) unstamped(source int) { l.counts[source].Unstamped++ }

// isFull tells whether as many packets were captured as were asked for.
func (l *ledger) isFull() bool { return l.captured == l.limit }

// reject counts a record that failed the check, for the source that the record names or, where
// there is no such source, for the first one. The record may name a wrong source, so close counts
// such records again.
func (l *ledger) reject(source int) {
	if source >= len(l.counts) {
		source = 0
	}
	l.counts[source].Invalid++
}

// publish copies the counts to where accounts reads them.
func (l *ledger) publish() {
	l.mu.Lock()
	copy(l.published, l.counts)
	l.mu.Unlock()
}

// close makes the accounts final. Every record that a program sent was taken, or is invalid, or is
// lost because the reader never found it in a ring. An invalid record need not be from the source
// that it names, so it is counted for a source that misses one. With that each account adds up to
// what its program has seen, unless the program or the kernel has miscounted, or a ring has held
// records that no program has sent: such a difference is unexplained.
func (l *ledger) close(programs []programAccount) {
	l.publish()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.final = l.join(programs)
	missing := make([]uint64, len(programs)) // records that are neither taken nor invalid
	stray := uint64(0)                       // invalid records that their sources did not send
	for i, p := range programs {
		a, c := &l.final[i], l.published[i]
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
	l.final[0].Invalid += stray
	for i := range l.final {
		a := &l.final[i]
		a.Unexplained = int64(a.Seen - a.explained())
	}
}

// accounts adds up the published counts and what the programs have counted by now, which read
// returns. While programs run the kernel copies their counters one after the other, so a packet may
// be in the copy of a later one and not in that of seen, which is the first: it was seen, too.
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
		sums[i].Seen = max(sums[i].Seen, sums[i].explained())
	}
	return sums, nil
}

// join adds up both sides. The caller holds mu.
func (l *ledger) join(programs []programAccount) Accounts {
	sums := make(Accounts, len(programs))
	for i, p := range programs {
		sums[i] = p.Account
		sums[i].add(l.published[i])
	}
	return sums
}
