// Package status is the two lines that a terminal shows while packets are captured.
package status

import (
	"cmp"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/xdpcap/xdpcap/capture/file"
	"github.com/xdpcap/xdpcap/capture/recorder"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/machine"
)

// A Status is what a capture has done so far, and how fast it was in the last seconds. What does
// not apply is nil.
type Status struct {
	At      time.Time
	Elapsed time.Duration

	Seen, Captured, Lost uint64
	Bytes                uint64 // of the captured packets

	Files    *file.Existing
	Clients  *Clients
	Recorder *Recorder
	RingUse  float64 // the fullest ring of a CPU; 1 = it is full
	Left     string  // time or packets until the capture ends; "" = a signal ends it
}

// Clients are those of --serve.
type Clients struct {
	Connected int
	Lost      uint64 // packets, all clients together
}

// A Recorder is the state of --ring.
type Recorder struct {
	recorder.State
	Recordings uint64
}

// A part is a part of a line; those that matter less than others give way to them.
type part struct {
	text string
	rank int // 0 = it stays
	red  bool
}

// line joins the parts that have room.
func line(p *frame.Page, between string, parts []part) string {
	width := func() (columns int) {
		for i, one := range parts {
			if columns += utf8.RuneCountInString(one.text); i > 0 {
				columns += len(between)
			}
		}
		return columns
	}
	for p.Columns > 0 && width() > p.Columns {
		least := 0
		for i := range parts {
			if parts[i].rank > parts[least].rank {
				least = i
			}
		}
		if parts[least].rank == 0 {
			break
		}
		parts = append(parts[:least:least], parts[least+1:]...)
	}
	var texts []string
	for _, one := range parts {
		if one.red {
			one.text = p.Red(one.text)
		}
		texts = append(texts, one.text)
	}
	return strings.Join(texts, between)
}

// write prints the two lines. rates are the packets per second of the last seconds, the newest
// last, and bits the last second's bits.
func (s *Status) write(p *frame.Page, rates []float64, bits float64) {
	rate := 0.0
	if len(rates) > 0 {
		rate = rates[len(rates)-1]
	}
	parts := []part{
		{text: clock(s.Elapsed)},
		{text: number(s.Seen) + " seen", rank: 2},
		{text: number(s.Captured) + " captured"},
		{text: fmt.Sprint(s.Lost, " lost"), red: s.Lost > 0},
		{text: frame.Scaled(rate) + "pkt/s"},
		{text: "", rank: 3}, // the trend
		{text: frame.Scaled(bits) + "bit/s", rank: 1},
	}
	const least, most, trend = 5, 30, 5
	room := p.Columns - utf8.RuneCountInString(line(&frame.Page{}, "  ", parts))
	if room >= least {
		shown := min(room, most)
		values := make([]float64, shown)
		recent := rates[max(0, len(rates)-shown):]
		copy(values[shown-len(recent):], recent)
		parts[trend].text = p.Spark(values)
	} else {
		parts = append(parts[:trend:trend], parts[trend+1:]...)
	}
	fmt.Fprintln(p, line(p, "  ", parts))
	if more := line(p, " | ", s.more()); more != "" {
		fmt.Fprintln(p, more)
	}
}

// more are the parts of the second line.
func (s *Status) more() (parts []part) {
	if r := s.Recorder; r != nil {
		state := "armed"
		if r.Writes {
			state = "writing"
		}
		held := fmt.Sprintf("%.1f s", r.Held.Seconds())
		if r.Ahead > 0 {
			held += fmt.Sprintf(" of %v", r.Ahead)
		}
		parts = append(parts, part{text: fmt.Sprintf("recorder %s, holds %s, %s, %s", state, held, machine.Amount(r.Bytes), frame.Several(r.Recordings, "recording"))})
	}
	if f := s.Files; f != nil {
		parts = append(parts, part{text: files(f, s.At)})
		if f.Free >= 0 {
			parts = append(parts, part{text: machine.Amount(f.Free) + " free", rank: 2})
		}
	}
	if c := s.Clients; c != nil {
		text := frame.Several(c.Connected, "client")
		if c.Lost > 0 {
			text += fmt.Sprintf(", %d lost", c.Lost)
		}
		parts = append(parts, part{text: text, rank: 1, red: c.Lost > 0})
	}
	parts = append(parts, part{text: fmt.Sprintf("rings %.0f %%", 100*s.RingUse), rank: 3})
	if s.Left != "" {
		parts = append(parts, part{text: s.Left, rank: 1})
	}
	return parts
}

// files says which files there are, and back to when.
func files(f *file.Existing, now time.Time) string {
	text := machine.Amount(f.Bytes)
	if f.Files < 2 && f.Keep == 0 {
		return text + " written"
	}
	number, since := frame.Several(f.Files, "file"), "since "
	if f.Keep > 0 {
		number, since = fmt.Sprintf("ring %d/%d files", f.Files, f.Keep), "back to "
	}
	return number + ", " + text + ", " + since + At(f.Since, now)
}

// At formats a time in the past, as briefly as is clear.
func At(t, now time.Time) string {
	switch {
	case t.Format(time.DateOnly) == now.Format(time.DateOnly):
		return t.Format(time.TimeOnly)
	case now.Sub(t) < 6*24*time.Hour:
		return t.Format("Mon 15:04")
	}
	return t.Format("2006-01-02 15:04")
}

// Left says how long or how many packets a capture still takes; each limit may be 0.
func Left(elapsed, duration time.Duration, captured, count uint64, counted string) string {
	var limits []string
	if duration > 0 {
		limits = append(limits, clock(max(0, duration-elapsed))+" left")
	}
	if count > 0 {
		limits = append(limits, fmt.Sprintf("%d %% of %s %d", 100*min(captured, count)/count, cmp.Or(counted, "-c"), count))
	}
	return strings.Join(limits, ", ")
}

// clock formats a duration: 00:12:31.
func clock(d time.Duration) string {
	s := int(d.Round(time.Second).Seconds())
	return fmt.Sprintf("%02d:%02d:%02d", s/3600, s/60%60, s%60)
}

// number formats a count, exactly as long as that is short.
func number(n uint64) string {
	if n < 1_000_000 {
		return fmt.Sprint(n)
	}
	return frame.Scaled(float64(n))
}
