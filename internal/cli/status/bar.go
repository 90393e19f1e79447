package status

import (
	"bytes"
	"io"
	"os"
	"sync"
	"time"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
)

// A Bar shows a Status on a terminal, below everything else that is printed there. A nil Bar shows
// nothing. Any goroutine may call its methods.
type Bar struct {
	out     io.Writer
	screen  *frame.Screen
	colored bool

	mu    sync.Mutex
	last  Status
	rates []float64 // packets per second
}

// minute is how many rates are kept.
const minute = 60

// New returns a bar on a terminal; nil where f is none, or one that cannot redraw. It writes to
// out, which prints on the terminal.
func New(f *os.File, out io.Writer) *Bar {
	if f == nil || os.Getenv("TERM") == "dumb" {
		return nil
	}
	screen := frame.NewScreen(f)
	if screen == nil {
		return nil
	}
	return &Bar{out: out, screen: screen, colored: frame.Colored("auto", f)}
}

// Show shows a status in place of the one before.
func (b *Bar) Show(s Status) {
	b.mu.Lock()
	defer b.mu.Unlock()
	bits := 0.0
	if took := s.At.Sub(b.last.At).Seconds(); !b.last.At.IsZero() && took > 0 {
		more := func(before, now uint64) float64 { return float64(now-min(now, before)) / took }
		bits = 8 * more(b.last.Bytes, s.Bytes)
		b.rates = append(b.rates[max(0, len(b.rates)-minute+1):], more(b.last.Captured, s.Captured))
	}
	b.last = s
	var text bytes.Buffer
	s.write(b.screen.Page(&text, b.colored), b.rates, bits)
	b.out.Write(b.screen.Redraw(text.Bytes())) // nobody may read it
}

// Around removes what is shown while print prints something, so that it stays above.
func (b *Bar) Around(print func()) {
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

// Begin is the status before the first second, from which the first rate is counted.
func (b *Bar) Begin(at time.Time) {
	if b != nil {
		b.last.At = at
	}
}
