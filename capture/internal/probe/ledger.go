package probe

import (
	"math"
	"sync"

	"github.com/xdpcap/xdpcap/capture/packet"
)

// ProgramCounts are the counts of the programs in the kernel for a source. Captured, Bytes and
// Invalid are 0, because only the reader can count them.
type ProgramCounts struct {
	packet.Account
	Sent   uint64 // records that found room in a ring
	Joined uint64 // packets in GRO or GSO super-packets, less one for each super-packet

	AwaitsExit bool // packets wait for their exits: see Settle

	// unread is the part of Lost that the programs sent, and that the reader never found.
	unread uint64
}

// Settle counts as undecided the packets at an entry whose exits were not seen: they are in Seen
// and in no other number. The programs must have ended.
func (p *ProgramCounts) Settle() {
	decided := p.FilteredOut + p.NotSampled + p.Lost - p.unread + p.Sent
	if !p.AwaitsExit || p.Seen <= decided {
		return
	}
	rest := p.Seen - decided
	p.FilteredOut += rest
	p.Undecided += rest
}

// AddUnread counts as lost the records of a source that the reader has not found. The source has
// ended, and counts are those of the reader after it has read everything. A second call, for a
// later source of the index, adds only the further ones.
func (p *ProgramCounts) AddUnread(counts packet.Account) {
	read := counts.Captured + counts.NotSampled + counts.Invalid
	unread := max(p.Sent-min(p.Sent, read), p.unread)
	p.Lost += unread - p.unread
	p.unread = unread
}

// Continue makes the counts of a slot the counts of an index: it subtracts the counts of the slot
// before its source came, and adds the counts of earlier sources of the index.
func (p *ProgramCounts) Continue(before, earlier ProgramCounts) {
	p.Subtract(before.Account)
	p.Add(earlier.Account)
	p.Sent += earlier.Sent - before.Sent
	p.Joined += earlier.Joined - before.Joined
	p.unread = earlier.unread
}

// A Ledger keeps the reader's counts of each source and joins them with those of the programs. Its
// methods belong to the reader's goroutine, except Accounts and Published, which any goroutine may
// call.
type Ledger struct {
	limit    uint64          // packets to capture
	counts   packet.Accounts // Captured, Bytes, Invalid, and NotSampled for packets after the limit
	captured uint64          // the sum of Captured over counts

	last    int   // the source that was counted last; -1 = none since Publish
	changed []int // the sources that were counted since Publish, with duplicates

	mu        sync.Mutex
	published packet.Accounts // a copy of counts, for Accounts
	final     packet.Accounts // nil until the session has ended
}

// NewLedger returns a Ledger that takes at most limit packets; 0 = no limit.
func NewLedger(sources int, limit uint64) *Ledger {
	if limit == 0 {
		limit = math.MaxUint64
	}
	return &Ledger{limit: limit, counts: make(packet.Accounts, sources), last: -1, published: make(packet.Accounts, sources)}
}

// Grow makes room for sources that have come.
func (l *Ledger) Grow(sources int) {
	if more := sources - len(l.counts); more > 0 {
		l.counts = append(l.counts, make(packet.Accounts, more)...)
	}
}

// Take counts a record that passed the check. It returns whether to hand over the packet: false
// once the limit is reached.
func (l *Ledger) Take(source, bytes int) bool {
	a := l.account(source)
	if l.IsFull() {
		a.NotSampled++
		return false
	}
	a.Captured++
	a.Bytes += uint64(bytes)
	l.captured++
	return true
}

// account returns the counts of a source for the caller to change.
func (l *Ledger) account(source int) *packet.Account {
	if source != l.last {
		l.noteChange(source)
	}
	return &l.counts[source]
}

// maxChanged is how many changes are noted; beyond it all counts are published.
const maxChanged = 1024

// noteChange notes that the counts of a source will change, so that Publish copies them.
func (l *Ledger) noteChange(source int) {
	if l.last = source; len(l.changed) < maxChanged {
		l.changed = append(l.changed, source)
	}
}

// Unstamped counts a packet that was taken but has no stamp from the card.
func (l *Ledger) Unstamped(source int) { l.account(source).Unstamped++ }

// IsFull reports whether the limit is reached.
func (l *Ledger) IsFull() bool { return l.captured == l.limit }

// Reject counts a record that failed the check, for the source that the record names, or for the
// first source if that one does not exist. The record may name the wrong source, so Close assigns
// such records again.
func (l *Ledger) Reject(source int) {
	if source >= len(l.counts) {
		source = 0
	}
	l.counts.At(source) // adds the account of source 0 if there is no source yet
	l.account(source).Invalid++
}

// Counts returns the reader's counts of each source.
func (l *Ledger) Counts() packet.Accounts { return l.counts }

// Final returns the final accounts; nil until Close.
func (l *Ledger) Final() packet.Accounts {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.final
}

// Publish makes the counts visible to Accounts. There may be very many sources, so it copies only
// changed counts.
func (l *Ledger) Publish() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.changed) == maxChanged {
		l.published = append(l.published[:0], l.counts...)
	}
	for _, source := range l.changed {
		*l.published.At(source) = l.counts[source]
	}
	l.last, l.changed = -1, l.changed[:0]
}

// Published returns the reader's counts of a source, as of the last Publish.
func (l *Ledger) Published(source int) packet.Account {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.published.Of(source)
}

// Close makes the accounts final. Every record that a program sent was taken, or is invalid, or is
// lost because the reader never found it in a ring. An invalid record may name the wrong source, so
// it is counted for a source that lacks a record. Then each account adds up to the number that its
// program has seen. If the program or the kernel has miscounted, or a ring held records that no
// program sent, the difference is Unexplained.
func (l *Ledger) Close(programs []ProgramCounts) {
	l.Publish()
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range programs {
		programs[i].Settle()
	}
	l.final = l.join(programs)
	missing := make([]uint64, len(programs)) // records of each source that are neither taken nor invalid
	stray := uint64(0)                       // invalid records beyond those that their named source lacks
	for i, p := range programs {
		a, c := &l.final[i], l.published.Of(i)
		a.Lost -= p.unread // they are among the missing ones
		missing[i] = p.Sent - min(p.Sent, c.Captured+c.NotSampled)
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

// Accounts adds up the published counts and the programs' current counts, which read returns. The
// kernel copies the counters one after the other while the programs run, and seen first. A packet
// may therefore be in the copy of a later counter and not in that of seen, so Seen is raised to the
// sum of the others.
func (l *Ledger) Accounts(read func() ([]ProgramCounts, error)) (packet.Accounts, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.final != nil {
		return append(packet.Accounts(nil), l.final...), nil
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
func (l *Ledger) join(programs []ProgramCounts) packet.Accounts {
	sums := make(packet.Accounts, len(programs))
	for i, p := range programs {
		sums[i] = p.Account
		sums[i].Add(l.published.Of(i))
	}
	return sums
}
