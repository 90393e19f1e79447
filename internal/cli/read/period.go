package read

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
)

// A period selects packets by time: at or after the first moment, and before the second.
type period struct {
	from, to moment

	first, last int64 // of the known times of packets in the files, in ns since 1970; 0 = none is known
	unread      bool  // there may be packets after last
	found       bool  // a packet so far was in the period
}

// A moment is the value of --from and --to.
type moment struct {
	text  string // as given; "" = not given
	time  time.Time
	daily bool // a time of the day, which has no date before setDay
}

// dailyLayouts is how many of the momentLayouts, the first ones, have no date.
const dailyLayouts = 2

// momentLayouts are the formats of a moment, in local time unless it has a Z or an offset. A
// fraction may follow the seconds.
var momentLayouts = []string{
	"15:04", "15:04:05", "2006-01-02",
	"2006-01-02 15:04", "2006-01-02 15:04:05", "2006-01-02 15:04Z07:00", "2006-01-02 15:04:05Z07:00",
}

// Set implements pflag.Value.
func (m *moment) Set(text string) error {
	if ago, ok := strings.CutPrefix(text, "-"); ok {
		var d time.Duration
		if (*frame.Duration)(&d).Set(ago) == nil {
			*m = moment{text: text, time: time.Now().Add(-d)}
			return nil
		}
	}
	for i, layout := range momentLayouts {
		if t, err := time.ParseInLocation(layout, strings.Replace(text, "T", " ", 1), time.Local); err == nil {
			*m = moment{text: text, time: t, daily: i < dailyLayouts}
			return nil
		}
	}
	return errors.New("must be a time such as 14:05, 2026-07-01 14:05:00.5, 2026-07-01T14:05:00Z or -10m")
}

func (m *moment) String() string { return m.text }
func (m *moment) Type() string   { return "moment" }

// isGiven reports whether --from or --to was given.
func (p *period) isGiven() bool { return p.from.text != "" || p.to.text != "" }

// setDay sets the date of moments that have none.
func (p *period) setDay(day time.Time) {
	p.from.setDay(day)
	p.to.setDay(day)
}

func (m *moment) setDay(day time.Time) {
	if m.daily {
		m.daily = false
		m.time = time.Date(day.Year(), day.Month(), day.Day(), m.time.Hour(), m.time.Minute(), m.time.Second(), m.time.Nanosecond(), time.Local)
	}
}

// check refuses a period without a moment in it.
func (p *period) check() error {
	const example = "as in --from 14:05 --to 14:06"
	switch {
	case p.from.text == "" || p.to.text == "":
		return nil
	case p.from.daily != p.to.daily:
		return fmt.Errorf("--from %s and --to %s: give both a date or neither, %s", p.from.text, p.to.text, example)
	case !p.from.time.Before(p.to.time):
		return fmt.Errorf("--from %s and --to %s: the first must be before the second, %s", p.from.text, p.to.text, example)
	}
	return nil
}

// contains reports whether a packet of this time, in nanoseconds since 1970, is in the period, and
// notes the time for missed. The first packet sets the date of moments that have none.
func (p *period) contains(nanoseconds int64) bool {
	if !p.isGiven() {
		return true
	}
	at := time.Unix(0, nanoseconds)
	p.setDay(at)
	p.addTime(nanoseconds)
	in := p.overlaps(at, at)
	p.found = p.found || in
	return in
}

// addTime adds the time of a packet, for missed.
func (p *period) addTime(nanoseconds int64) {
	if p.first == 0 || nanoseconds < p.first {
		p.first = nanoseconds
	}
	p.last = max(p.last, nanoseconds)
}

// missed is a message about the times of the packets in the files, if no packet was in the period;
// "" otherwise.
func (p *period) missed() string {
	if !p.isGiven() || p.found || p.first == 0 {
		return ""
	}
	const layout = "2006-01-02 15:04:05"
	text := "no packet is of this time: those of the files are from " + time.Unix(0, p.first).Format(layout)
	if p.unread {
		return text + " on"
	}
	return text + " to " + time.Unix(0, p.last).Format(layout)
}

// overlaps reports whether a part of the time from a first to a last moment is in the period.
func (p *period) overlaps(first, last time.Time) bool {
	return (p.from.text == "" || !last.Before(p.from.time)) && (p.to.text == "" || first.Before(p.to.time))
}
