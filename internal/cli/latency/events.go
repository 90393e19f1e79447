package latency

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/xdpcap/xdpcap/internal/cli/counters"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/escape"
	"github.com/xdpcap/xdpcap/internal/meter"
)

// runEvents is latency --builtin --events. The lines go to standard output and the totals to
// stderr.
func runEvents(o *Options, g frame.Guard) error {
	lines := newEventLines(o.Process.Stdout.File, o.JSON)
	open := func(iface string) (*latency, error) { return openBuiltin(o, iface, lines.print) }
	return counters.RunEvents(&o.Options, g, open, func(ctx context.Context, l *latency) error {
		err := lines.follow(ctx.Done(), l)
		last, readErr := l.Read()
		end := time.Now()
		// Close hands the measurements that are still in the ring to lines.
		if closing := l.Close(); err == nil {
			err = closing
		}
		if flushErr := lines.flush(); err == nil {
			err = flushErr
		}
		if readErr == nil && !o.JSON {
			newLatencyReport(l, interval{}.Next(last, end, end.Sub(l.Began()))).WriteTable(o.Process.Stderr)
		}
		if err == nil {
			err = readErr
		}
		return err
	})
}

// eventLines prints measurements. print and flush may be called by different goroutines.
type eventLines struct {
	mu   sync.Mutex
	out  *bufio.Writer
	json *json.Encoder // nil: text
	err  error         // the first error of writing, after which nothing is written
}

func newEventLines(w io.Writer, asJSON bool) *eventLines {
	e := &eventLines{out: bufio.NewWriter(w)}
	if asJSON {
		e.json = escape.NewJSONEncoder(e.out)
	}
	return e
}

// EventLine is a measurement as --events --json prints it.
type EventLine struct {
	Time    time.Time `json:"time"`
	CPU     int       `json:"cpu"`
	Verdict string    `json:"verdict"`
	Took    int64     `json:"took_ns"`
}

func (e *eventLines) print(m meter.Measurement) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil {
		return
	}
	if e.json != nil {
		e.err = e.json.Encode(EventLine{m.Time.UTC(), m.CPU, m.Verdict.SlotName(), m.Took.Nanoseconds()})
		return
	}
	_, e.err = fmt.Fprintf(e.out, "%s cpu %d %s %d ns\n", m.Time.Local().Format("15:04:05.000000"), m.CPU, m.Verdict.SlotName(), m.Took.Nanoseconds())
}

func (e *eventLines) flush() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err == nil {
		e.err = e.out.Flush()
	}
	return frame.ExplainPrint(e.err)
}

// follow flushes ten times per second until done is closed. It ends earlier with an error when the
// lines cannot be written, or when nothing is measured any more.
func (e *eventLines) follow(done <-chan struct{}, l *latency) error {
	tick, look := time.NewTicker(100*time.Millisecond), time.NewTicker(counters.LookInterval)
	defer tick.Stop()
	defer look.Stop()
	for {
		select {
		case <-done:
			return nil
		case <-tick.C:
			if err := e.flush(); err != nil {
				return err
			}
		case <-look.C:
			if _, err := l.Follow(); err != nil {
				return err
			}
		}
	}
}
