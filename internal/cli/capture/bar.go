package capture

import (
	"bytes"
	"os"
	"sync"
	"time"

	"io"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
)

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
