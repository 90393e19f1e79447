package probe

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/xdpcap/xdpcap/capture/packet"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// The counts of the programs and of the reader add up to an exact account, whatever became of the
// records.
func TestLedger(t *testing.T) {
	t.Parallel()
	l := NewLedger(2, 3)
	for _, bytes := range []int{10, 20} {
		if !l.Take(0, bytes) {
			t.Error("a packet below the limit was refused")
		}
	}
	l.Reject(1)
	l.Reject(7) // there is no source 7, so the first one has it
	if !l.Take(1, 30) || !l.IsFull() {
		t.Error("the third packet did not reach the limit of 3")
	}
	if l.Take(1, 40) {
		t.Error("a packet above the limit was taken")
	}
	programs := []ProgramCounts{
		{Account: packet.Account{Seen: 10, FilteredOut: 5, NotSampled: 1, Lost: 1}, Sent: 3},
		{Account: packet.Account{Seen: 5, Lost: 1}, Sent: 4}, // one of the 4 records was never found in a ring
	}
	read := func() ([]ProgramCounts, error) { return programs, nil }
	want := packet.Accounts{
		{Seen: 10, FilteredOut: 5, NotSampled: 1, Lost: 1},
		{Seen: 5, Lost: 1},
	}
	compare := func(when string) {
		t.Helper()
		got, err := l.Accounts(read)
		if err != nil {
			t.Error(err)
		}
		same(t, want, got, "%s", when)
	}
	compare("before anything was published")
	if got := want.Total(); got.Pending() != 7 || got.Equation() != "15 seen = 5 filtered out + 1 not sampled + 2 lost + 0 invalid + 0 captured + 7 pending" {
		t.Errorf("before anything was published: %s", got.Equation())
	}
	l.Publish()
	want[0].Captured, want[0].Bytes, want[0].Invalid = 2, 30, 1
	want[1].Captured, want[1].Bytes, want[1].Invalid, want[1].NotSampled = 1, 30, 1, 1
	compare("published")
	l.Close(programs)
	programs[0].Seen = 99 // must not change an account that is final
	want[1].Lost++
	compare("closed")
	for i, a := range want {
		if a.Seen != a.FilteredOut+a.NotSampled+a.Lost+a.Invalid+a.Captured || a.Pending() != 0 {
			t.Errorf("source %d does not add up: %+v", i, a)
		}
	}
}

// What the programs have counted as seen stays as it is: where the rest does not add up to it, the
// difference is told, in numbers and in words.
func TestLedgerUnexplained(t *testing.T) {
	t.Parallel()
	l := NewLedger(3, 0)
	l.Take(0, 10)
	l.Take(1, 10)
	l.Close([]ProgramCounts{
		{Account: packet.Account{Seen: 5, FilteredOut: 1, Lost: 1}, Sent: 1}, // two packets are in no other number
		{Account: packet.Account{Seen: 0}, Sent: 0},                          // a record that no program has sent
		{Account: packet.Account{Seen: 3, NotSampled: 3}, Sent: 0},
	})
	want := []string{
		"5 seen = 1 filtered out + 0 not sampled + 1 lost + 0 invalid + 1 captured + 2 unexplained",
		"0 seen = 0 filtered out + 0 not sampled + 0 lost + 0 invalid + 1 captured - 1 unexplained",
		"3 seen = 0 filtered out + 3 not sampled + 0 lost + 0 invalid + 0 captured",
	}
	var got []string
	for _, a := range l.final {
		got = append(got, a.Equation())
	}
	same(t, want, got)
	if n := l.final.Total().Unexplained; n != 1 {
		t.Errorf("%d unexplained in all, want 1", n)
	}
}

// While programs run, the kernel copies seen before the numbers that come after it. No number of
// such an account is below 0, and each packet in it was seen.
func TestLedgerLive(t *testing.T) {
	t.Parallel()
	l := NewLedger(1, 0)
	l.Take(0, 10)
	l.Publish()
	got, err := l.Accounts(func() ([]ProgramCounts, error) {
		return []ProgramCounts{{Account: packet.Account{Seen: 4, FilteredOut: 3, NotSampled: 1, Lost: 1}, Sent: 1}}, nil
	})
	testnet.Must(t, err)
	want := packet.Account{Seen: 6, FilteredOut: 3, NotSampled: 1, Lost: 1, Captured: 1, Bytes: 10}
	same(t, packet.Accounts{want}, got)
	if n := (packet.Account{Seen: 4, FilteredOut: 5}).Matched(); n != 0 {
		t.Errorf("of 4 packets of which 5 were filtered out %d matched", n)
	}
}

// same fails the test if two values differ.
func same(t *testing.T, want, got any, about ...any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%v: want (-), got (+): %s", about, diff)
	}
}

// Entries without an exit are undecided, once: also if the account is final twice, because its
// source has gone before the session ends, and records of it were not found.
func TestSettle(t *testing.T) {
	t.Parallel()
	p := ProgramCounts{Account: packet.Account{Seen: 10, FilteredOut: 4, NotSampled: 1, Lost: 1}, Sent: 2}
	other := p
	p.AwaitsExit = true
	p.Settle()
	p.AddUnread(packet.Account{Captured: 1})
	p.Settle()
	other.Settle()
	want := packet.Account{Seen: 10, FilteredOut: 6, Undecided: 2, NotSampled: 1, Lost: 2}
	if diff := cmp.Diff(want, p.Account); diff != "" {
		t.Error(diff)
	}
	if other.Undecided != 0 || other.FilteredOut != 4 {
		t.Errorf("without entries that wait: %+v", other.Account)
	}
}
