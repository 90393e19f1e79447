package machine

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// must ends the test if there is an error.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatalf("%+v", err)
	}
}

// A clock that is ahead by 37 seconds and gains 20 us per second is followed, also beyond the last
// comparison. When it is set, its rate is not taken from the jump.
func TestCard(t *testing.T) {
	t.Parallel()
	const ahead, start = 37 * int64(time.Second), 1000 * int64(time.Second)
	mono, set := start, int64(0)
	card := func(mono int64) int64 { return mono + ahead + (mono-start)/50_000 + set }
	var failure error
	c, err := NewCardClock("/dev/ptp9", func() (ClockComparison, error) {
		return ClockComparison{Card: card(mono), Monotonic: mono, Within: time.Microsecond}, failure
	})
	must(t, err)
	check := func(when string, at, within int64) {
		t.Helper()
		if got := c.Monotonic(card(at)); got-at > within || at-got > within {
			t.Errorf("%s: the card's stamp of %d is %d", when, at, got)
		}
	}
	check("at the first comparison", mono, 0)
	check("without a rate", mono+int64(time.Second), 20_000)
	mono += int64(time.Second)
	must(t, c.Measure())
	check("after the second", mono+int64(time.Second), 10)
	check("before the second", mono-int64(time.Second)/2, 10)
	if last, faster := c.Last(); last.Card != card(mono) || last.Within != time.Microsecond || faster < 19e-6 || faster > 21e-6 {
		t.Errorf("%+v, faster by %v", last, faster)
	}
	set, mono = -2*int64(time.Second)/5, mono+int64(time.Second)
	must(t, c.Measure())
	check("after it was set", mono+int64(time.Second), 20_000)
	failure = errors.New("the card sleeps")
	if err := c.Measure(); err == nil || err.Error() != "compare /dev/ptp9 with the system's clock: the card sleeps" {
		t.Error(err)
	}
	check("after a failure", mono, 0)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// Any clock can be compared by reading it between two readings of the system's. The difference of
// CLOCK_REALTIME is known.
func TestCompareBracketed(t *testing.T) {
	t.Parallel()
	// withMonotonic refuses a comparison of a second ago. On a busy machine the test may have no
	// CPU for that long: then it compares again.
	var bracketed, converted ClockComparison
	var offset int64
	for began := time.Now(); ; began = time.Now() {
		var err, failed error
		if bracketed, _, err = compareBracketed(unix.CLOCK_REALTIME); err != nil {
			t.Fatal(err)
		}
		if offset, _, err = ClockOffset(); err != nil {
			t.Fatal(err)
		}
		converted = bracketed
		converted.Monotonic = bracketed.Card // as the kernel reports it
		converted, failed = withMonotonic(converted)
		if time.Since(began) < time.Second {
			if failed != nil {
				t.Error(failed)
			}
			break
		}
	}
	for _, c := range []ClockComparison{bracketed, converted} {
		if wrong := time.Duration(c.Card - c.Monotonic - offset).Abs(); wrong > 200*time.Microsecond || c.Within < 0 {
			t.Errorf("%+v is wrong by %v", c, wrong)
		}
	}
	if _, err := withMonotonic(ClockComparison{Monotonic: offset}); err == nil {
		t.Error("a clock that was set meanwhile is not noticed")
	}
	if _, err := compare(987654); err == nil {
		t.Error("what is no device is compared")
	}
}

func TestNarrowest(t *testing.T) {
	t.Parallel()
	at := func(ns uint32) unix.PtpClockTime { return unix.PtpClockTime{Sec: 2, Nsec: ns} }
	got := narrowest([][3]unix.PtpClockTime{{at(0), at(500), at(1000)}, {at(2000), at(2300), at(2100)}, {at(3000), at(3100), at(3200)}})
	if want := (ClockComparison{Card: 2_000_002_300, Monotonic: 2_000_002_050, Within: 100}); got != want {
		t.Errorf("%+v", got)
	}
}

func TestOpenCard(t *testing.T) {
	t.Parallel()
	if c, err := OpenCardClock(987654); err == nil {
		c.Close()
		t.Error("a clock that is not there was opened")
	}
}
