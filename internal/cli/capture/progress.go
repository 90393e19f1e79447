package capture

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/xdpcap/xdpcap/capture/file"
	"github.com/xdpcap/xdpcap/capture/recorder"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/machine"
)

// A progress has the numbers of a capture so far, for the two lines that a bar shows on a terminal.
type progress struct {
	at      time.Time
	elapsed time.Duration

	seen, captured, lost uint64
	bytes                uint64 // of the captured packets

	files    *file.Existing    // nil = no file, and no series
	clients  *connections      // nil = without --serve
	recorder *recorderProgress // nil = without --ring
	ringUse  float64           // the fullest ring of a CPU; 1 = it is full
	left     string            // time or packets until the capture ends; "" = a signal ends it
}

// A recorderProgress is the state of --ring.
type recorderProgress struct {
	recorder.State
	recordings uint64
}

// showsProgress reports whether stderr is used for the progress: no packets and no objects are
// printed to the terminal. If standard output is a pipe, the program that reads it may print there.
func (r *captureRun) showsProgress() bool {
	o := r.o
	if o.printing.Quiet || o.Print || r.text != o.Process.Stderr || len(r.Outputs) == 0 && !o.account {
		return false
	}
	return !o.WritesStdout() || isRegular(o.Process.Stdout.File)
}

func isRegular(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode().IsRegular()
}

// progressSoFar reads the numbers of the capture.
func (r *captureRun) progressSoFar() (*progress, error) {
	all, err := r.accountsNow()
	if err != nil {
		return nil, err
	}
	total, now := all[0].Total(), time.Now()
	p := &progress{
		at: now, elapsed: now.Sub(r.started),
		seen: total.Seen, captured: total.Captured, lost: total.Lost, bytes: total.Bytes,
		ringUse: r.session.RingUse(),
		left:    untilLimits(now.Sub(r.started), r.o.Duration, total.Captured, r.o.Count, r.o.Counted),
	}
	if r.recorder != nil {
		p.recorder = &recorderProgress{State: r.recorder.State()}
		p.recorder.recordings, _ = r.recorder.Recordings()
	}
	if i := r.indexOfFile(); i >= 0 {
		e := r.Outputs[i].Live.(*file.File).Existing()
		p.files = &e
	}
	if c, ok := r.connections(); ok {
		p.clients = &c
	}
	return p, nil
}

// A part is a part of a line. If a line is too long, the parts with the highest rank are omitted.
type part struct {
	text string
	rank int // 0 = it is never omitted
	red  bool
}

// joinParts joins the parts that fit on a page, with a separator between them.
func joinParts(p *frame.Page, separator string, parts []part) string {
	width := func() int {
		columns := len(separator) * (len(parts) - 1)
		for _, one := range parts {
			columns += utf8.RuneCountInString(one.text)
		}
		return columns
	}
	for p.Columns > 0 && width() > p.Columns {
		first := slices.MaxFunc(parts, func(a, b part) int { return cmp.Compare(a.rank, b.rank) })
		if first.rank == 0 {
			break
		}
		i := slices.Index(parts, first)
		parts = slices.Delete(slices.Clone(parts), i, i+1)
	}
	var texts []string
	for _, one := range parts {
		if one.red {
			one.text = p.Red(one.text)
		}
		texts = append(texts, one.text)
	}
	return strings.Join(texts, separator)
}

// write prints the two lines. rates are the packets per second of the last seconds, the newest
// last, and bits the bits of the last second.
func (s *progress) write(p *frame.Page, rates []float64, bits float64) {
	const fewestBars, mostBars, trend = 5, 30, 5 // trend: the index of its part
	rate := 0.0
	if len(rates) > 0 {
		rate = rates[len(rates)-1]
	}
	parts := []part{
		{text: formatClock(s.elapsed)},
		{text: formatCount(s.seen) + " seen", rank: 2},
		{text: formatCount(s.captured) + " captured"},
		{text: fmt.Sprint(s.lost, " lost"), red: s.lost > 0},
		{text: frame.Scaled(rate) + "pkt/s"},
		{text: "", rank: 3}, // the trend, once its width is known
		{text: frame.Scaled(bits) + "bit/s", rank: 1},
	}
	room := p.Columns - utf8.RuneCountInString(joinParts(&frame.Page{}, "  ", parts))
	if room >= fewestBars {
		values := make([]float64, min(room, mostBars))
		recent := rates[max(0, len(rates)-len(values)):]
		copy(values[len(values)-len(recent):], recent)
		parts[trend].text = p.Spark(values)
	} else {
		parts = slices.Delete(parts, trend, trend+1)
	}
	fmt.Fprintln(p, joinParts(p, "  ", parts))
	if second := joinParts(p, " | ", s.secondLine()); second != "" {
		fmt.Fprintln(p, second)
	}
}

func (s *progress) secondLine() (parts []part) {
	if r := s.recorder; r != nil {
		state := "armed"
		if r.Writes {
			state = "writing"
		}
		held := fmt.Sprintf("%.1f s", r.Held.Seconds())
		if r.Ahead > 0 {
			held += fmt.Sprintf(" of %v", r.Ahead)
		}
		parts = append(parts, part{text: fmt.Sprintf("recorder %s, holds %s, %s, %s", state, held, machine.Amount(r.Bytes), frame.Several(r.recordings, "recording"))})
	}
	if f := s.files; f != nil {
		parts = append(parts, part{text: formatFiles(f, s.at)})
		if f.Free >= 0 {
			parts = append(parts, part{text: machine.Amount(f.Free) + " free", rank: 2})
		}
	}
	if c := s.clients; c != nil {
		text := frame.Several(c.Connected, "client")
		if c.Lost > 0 {
			text += fmt.Sprintf(", %d lost", c.Lost)
		}
		parts = append(parts, part{text: text, rank: 1, red: c.Lost > 0})
	}
	parts = append(parts, part{text: fmt.Sprintf("rings %.0f %%", 100*s.ringUse), rank: 3})
	if s.left != "" {
		parts = append(parts, part{text: s.left, rank: 1})
	}
	return parts
}

// formatFiles formats the number of files, their size, and the time of the oldest packet.
func formatFiles(f *file.Existing, now time.Time) string {
	text := machine.Amount(f.Bytes)
	if f.Files < 2 && f.Keep == 0 {
		return text + " written"
	}
	number, since := frame.Several(f.Files, "file"), "since "
	if f.Keep > 0 {
		number, since = fmt.Sprintf("ring %d/%d files", f.Files, f.Keep), "back to "
	}
	return number + ", " + text + ", " + since + formatPast(f.Since, now)
}

// formatPast formats a time in the past: without a date if it was today, with a weekday if that is
// clear.
func formatPast(t, now time.Time) string {
	switch {
	case t.Format(time.DateOnly) == now.Format(time.DateOnly):
		return t.Format(time.TimeOnly)
	case now.Sub(t) < 6*24*time.Hour:
		return t.Format("Mon 15:04")
	}
	return t.Format("2006-01-02 15:04")
}

// untilLimits formats the time until a duration ends, and the share of a number of packets, which
// the user has given by the flag counted ("" = -c). A limit of 0 is none.
func untilLimits(elapsed, duration time.Duration, captured, count uint64, counted string) string {
	var limits []string
	if duration > 0 {
		limits = append(limits, formatClock(max(0, duration-elapsed))+" left")
	}
	if count > 0 {
		limits = append(limits, fmt.Sprintf("%d %% of %s %d", 100*min(captured, count)/count, cmp.Or(counted, "-c"), count))
	}
	return strings.Join(limits, ", ")
}

// formatClock formats a duration: 00:12:31.
func formatClock(d time.Duration) string {
	s := int(d.Round(time.Second).Seconds())
	return fmt.Sprintf("%02d:%02d:%02d", s/3600, s/60%60, s%60)
}

// formatCount formats a number of packets, exactly if it has at most six digits.
func formatCount(n uint64) string {
	if n < 1_000_000 {
		return fmt.Sprint(n)
	}
	return frame.Scaled(float64(n))
}

// A bar shows the progress of a capture on a terminal, below everything else that is printed there.
// A nil bar shows nothing. Any goroutine may call its methods.
type bar struct {
	out     io.Writer
	screen  *frame.Screen
	colored bool

	mu    sync.Mutex
	last  progress
	rates []float64 // packets per second, for mostRates seconds
}

const mostRates = 60

// newBar returns a bar for a capture that began at this time; nil if stderr is no terminal, or one
// that cannot redraw.
func newBar(stderr *frame.Console, began time.Time) *bar {
	f := stderr.File()
	screen := frame.NewScreen(f)
	if screen == nil || os.Getenv("TERM") == "dumb" {
		return nil
	}
	return &bar{out: stderr, screen: screen, colored: frame.Colored("auto", f), last: progress{at: began}}
}

// show shows the present progress in place of the last one.
func (b *bar) show(now *progress) {
	b.mu.Lock()
	defer b.mu.Unlock()
	bits := 0.0
	if took := now.at.Sub(b.last.at).Seconds(); took > 0 {
		perSecond := func(before, now uint64) float64 { return float64(now-min(now, before)) / took }
		bits = 8 * perSecond(b.last.bytes, now.bytes)
		b.rates = append(b.rates[max(0, len(b.rates)-mostRates+1):], perSecond(b.last.captured, now.captured))
	}
	b.last = *now
	var text bytes.Buffer
	now.write(b.screen.Page(&text, b.colored), b.rates, bits)
	b.out.Write(b.screen.Redraw(text.Bytes())) // an error: stderr has no reader
}

// around calls print, which prints to the terminal, after it has removed the bar. The next show
// draws it below.
func (b *bar) around(print func()) {
	if b == nil {
		print()
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if text := b.screen.Last(nil); len(text) > 0 {
		b.out.Write(text)
	}
	b.screen.Leave()
	print()
}
