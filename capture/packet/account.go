package packet

import "fmt"

// An Account counts what happened to every packet that reached a source. All numbers are cumulative
// since Open. Once the session has ended,
//
//	Seen = FilteredOut + NotSampled + Lost + Invalid + Captured
//
// holds exactly; if it ever does not, Unexplained is the difference. Before the end, Seen also
// counts packets that are on their way: Pending is their number.
type Account struct {
	Seen        uint64 `json:"seen"`                // packets that reached the sampling program
	FilteredOut uint64 `json:"filtered_out"`        // the filter did not match
	Undecided   uint64 `json:"undecided,omitempty"` // part of FilteredOut: see Options.Fragments and Options.Verdicts
	NotSampled  uint64 `json:"not_sampled"`         // skipped by a sampling option, or after Options.Count
	NotRecorded uint64 `json:"not_recorded"`        // part of NotSampled: a Recorder did not write them
	Lost        uint64 `json:"lost"`                // no room in the ring, or not taken by an output
	NotTaken    uint64 `json:"not_taken"`           // part of Lost: an output did not take them
	Invalid     uint64 `json:"invalid"`             // records that failed the check of cookie and length
	Captured    uint64 `json:"captured"`            // handed over
	Bytes       uint64 `json:"bytes"`               // len(Packet.Data) of the captured packets

	// Unstamped counts the captured packets that have the host's time stamp because the card gave
	// no stamp of the kind in Options.Stamp.
	Unstamped uint64 `json:"unstamped,omitempty"`

	// Missed is the sum of the weights of the packets that found no room in a ring. It is counted
	// only where packets have different weights: with Options.SampleVerdicts or Adaptive.
	Missed uint64 `json:"-"`

	// PassedBy is a lower bound for the packets that the interface has counted and that did not
	// pass the source's hook, such as packets that tc redirects past XDP. No other number includes
	// them.
	PassedBy uint64 `json:"passed_by,omitempty"`

	// Unexplained is Seen minus the sum of the other numbers, and may be negative. It is 0 until
	// the session has ended. After that it is 0 unless something has gone wrong, which is then also
	// a Notice.
	Unexplained int64 `json:"unexplained,omitempty"`
}

// Dropped is how many packets found no room in the ring.
func (a Account) Dropped() uint64 { return a.Lost - a.NotTaken }

// Matched is how many packets the filter accepted.
func (a Account) Matched() uint64 { return a.Seen - min(a.Seen, a.FilteredOut) }

// Pending is how many packets are on their way, in a ring or to an output. Only Seen counts them.
// Once the session has ended, Pending is 0.
func (a Account) Pending() uint64 {
	if a.Unexplained != 0 {
		return 0
	}
	return a.Seen - min(a.Seen, a.Explained())
}

// Equation is the account as a line of text, for files, and for a capture at SIGUSR1 and at its
// end.
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

// String is the Equation.
func (a Account) String() string { return a.Equation() }

// Explained is the sum of the numbers other than Seen.
func (a Account) Explained() uint64 {
	return a.FilteredOut + a.NotSampled + a.Lost + a.Invalid + a.Captured
}

// Add adds the numbers of b.
func (a *Account) Add(b Account) { a.add(b, 1) }

// Subtract subtracts the numbers of b.
func (a *Account) Subtract(b Account) { a.add(b, -1) }

func (a *Account) add(b Account, sign int64) {
	a.Seen += uint64(sign) * b.Seen
	a.FilteredOut += uint64(sign) * b.FilteredOut
	a.Undecided += uint64(sign) * b.Undecided
	a.NotSampled += uint64(sign) * b.NotSampled
	a.NotRecorded += uint64(sign) * b.NotRecorded
	a.Lost += uint64(sign) * b.Lost
	a.NotTaken += uint64(sign) * b.NotTaken
	a.Invalid += uint64(sign) * b.Invalid
	a.Captured += uint64(sign) * b.Captured
	a.Bytes += uint64(sign) * b.Bytes
	a.Unstamped += uint64(sign) * b.Unstamped
	a.Missed += uint64(sign) * b.Missed
	a.PassedBy += uint64(sign) * b.PassedBy
	a.Unexplained += sign * b.Unexplained
}

// Minus returns the account minus b.
func (a Account) Minus(b Account) Account {
	a.Subtract(b)
	return a
}

// Accounts has one Account for each source, in the order of Session.Sources.
type Accounts []Account

// Of returns the account of a source; zero if there is none yet.
func (as Accounts) Of(source int) (a Account) {
	if source < len(as) {
		a = as[source]
	}
	return a
}

// At returns the account of a source for the caller to change. It adds missing accounts up to that
// one.
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
		sum.Add(a)
	}
	return sum
}

// Delivered returns the accounts of an output that took only some of the packets that the session
// captured, and counts the others as lost. The output took Captured and Bytes of taken.
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
		rest[i].Subtract(b)
	}
	return rest
}

// Plus returns the sums, source by source.
func (as Accounts) Plus(more Accounts) Accounts {
	sums := as.sized(len(more))
	for i := range more {
		sums[i].Add(more[i])
	}
	return sums
}
