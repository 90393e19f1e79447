package machine

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A CardClock is the clock of a network card, a PTP hardware clock, which runs on its own. Measure
// compares it with CLOCK_MONOTONIC. Monotonic converts its stamps by the last two comparisons, so
// that it also follows a clock that runs faster or slower. Measure is for one goroutine; Last and
// Monotonic may be called concurrently.
type CardClock struct {
	Name string // of its device, such as /dev/ptp0

	compare func() (ClockComparison, error)
	close   func() error
	now     atomic.Pointer[relation]
}

// A ClockComparison is two clocks read at the same moment, in ns.
type ClockComparison struct {
	Card, Monotonic int64
	Within          time.Duration // duration of the readings; the error is at most half of that
}

// A relation is the difference between the clocks, and between their rates, since the last
// comparison.
type relation struct {
	ClockComparison
	rate float64 // ns of CLOCK_MONOTONIC for each ns of the card, less 1
}

// maxDrift is the upper bound of the difference between the rates of a healthy card and the system
// clock. If two comparisons show more, one of the clocks was set between them.
const maxDrift = 500e-6

// OpenCardClock opens the clock with this number, and compares it once. Opening needs permission to
// read /dev/ptpN, which only root has unless udev grants it; later calls need no permission.
func OpenCardClock(number int) (*CardClock, error) {
	name := fmt.Sprintf("/dev/ptp%d", number)
	device, err := os.OpenFile(name, os.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the clock of the card: %w", err)
	}
	c, err := NewCardClock(name, func() (ClockComparison, error) { return compare(int(device.Fd())) })
	if err != nil {
		return nil, errors.Join(err, device.Close())
	}
	c.close = device.Close
	return c, nil
}

// NewCardClock returns a clock that is read with compare, and compares it once.
func NewCardClock(name string, compare func() (ClockComparison, error)) (*CardClock, error) {
	c := &CardClock{Name: name, compare: compare, close: func() error { return nil }}
	if err := c.Measure(); err != nil {
		return nil, err
	}
	return c, nil
}

// Measure compares the clocks. After an error the previous comparison stays valid.
func (c *CardClock) Measure() error {
	got, err := c.compare()
	if err != nil {
		return fmt.Errorf("compare %s with the system's clock: %w", c.Name, err)
	}
	next := &relation{ClockComparison: got}
	if last := c.now.Load(); last != nil && got.Card > last.Card {
		passed := got.Card - last.Card
		rate := float64(got.Monotonic-last.Monotonic-passed) / float64(passed)
		if math.Abs(rate) <= maxDrift {
			next.rate = rate
		}
	}
	c.now.Store(next)
	return nil
}

// Last returns the last comparison, and how much faster the card's clock runs than the system's:
// 1e-6 is a microsecond per second.
func (c *CardClock) Last() (last ClockComparison, faster float64) {
	r := c.now.Load()
	return r.ClockComparison, -r.rate
}

// Monotonic converts a time of the card to CLOCK_MONOTONIC, both in ns.
func (c *CardClock) Monotonic(stamp int64) int64 {
	r := c.now.Load()
	since := stamp - r.Card
	return r.ClockComparison.Monotonic + since + int64(float64(since)*r.rate)
}

// Close closes the device.
func (c *CardClock) Close() error { return c.close() }

// compare compares the clock of a PTP device in the best way that its driver supports: the hardware
// latches both, or the driver reads the card between two reads of the system clock, or this process
// does.
func compare(device int) (ClockComparison, error) {
	c, err := comparePrecise(device)
	if err != nil {
		c, err = compareExtended(device)
	}
	if err == nil {
		return withMonotonic(c)
	}
	c, _, err = compareBracketed(unix.FdToClockID(device))
	return c, err
}

// comparePrecise compares with CLOCK_REALTIME instead of CLOCK_MONOTONIC, like compareExtended: the
// kernel offers only that.
func comparePrecise(device int) (ClockComparison, error) {
	p, err := unix.IoctlPtpSysOffsetPrecise(device)
	if err != nil {
		return ClockComparison{}, err
	}
	return ClockComparison{Card: nanoseconds(p.Device), Monotonic: nanoseconds(p.Realtime)}, nil
}

func compareExtended(device int) (ClockComparison, error) {
	e, err := unix.IoctlPtpSysOffsetExtended(device, readings)
	if err != nil {
		return ClockComparison{}, err
	}
	return narrowest(e.Ts[:readings]), nil
}

// narrowest returns the comparison that took the shortest time. Each triple is the system's clock,
// the card's, and the system's again.
func narrowest(triples [][3]unix.PtpClockTime) ClockComparison {
	best := ClockComparison{Within: math.MaxInt64}
	for _, t := range triples {
		best.replaceByNarrower(nanoseconds(t[0]), nanoseconds(t[1]), nanoseconds(t[2]))
	}
	return best
}

// replaceByNarrower replaces the comparison by one that took less time: of the card's clock with
// the system's clock before and after it.
func (c *ClockComparison) replaceByNarrower(before, card, after int64) {
	if within := time.Duration(after - before); within < c.Within {
		*c = ClockComparison{Card: card, Monotonic: before + (after-before)/2, Within: within}
	}
}

func nanoseconds(t unix.PtpClockTime) int64 { return t.Sec*1e9 + int64(t.Nsec) }

// withMonotonic converts the CLOCK_REALTIME of a comparison to CLOCK_MONOTONIC.
func withMonotonic(c ClockComparison) (ClockComparison, error) {
	offset, now, err := ClockOffset()
	c.Monotonic -= offset
	if err == nil && differ(c.Monotonic, now, int64(time.Second)) {
		err = errors.New("the wall clock was set meanwhile")
	}
	return c, err
}

// compareBracketed compares a clock, as Card, with CLOCK_MONOTONIC: several times it reads the
// clock between two reads of CLOCK_MONOTONIC, the last of which is also returned.
func compareBracketed(clock int32) (best ClockComparison, last int64, err error) {
	best.Within = math.MaxInt64
	for range readings {
		before, errBefore := Monotonic()
		card, err := readClock(clock)
		after, errAfter := Monotonic()
		if err = cmp.Or(errBefore, err, errAfter); err != nil {
			return ClockComparison{}, 0, err
		}
		best.replaceByNarrower(before, card, after)
		last = after
	}
	return best, last, nil
}
