package top

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/capture/file"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/drops"
	"github.com/xdpcap/xdpcap/internal/lines"
)

// A watch captures the packets of a row, and keeps the last ones as lines.
type watch struct {
	title    string
	path     string // of the file that they are written to; "" = none
	cancel   context.CancelFunc
	ended    chan struct{} // closed when the capture has ended
	captured func() uint64 // packets

	mu    sync.Mutex
	lines []string
	err   error // why the capture has ended
}

const (
	keptLines      = 500
	shownPerSecond = 1000    // packets: more than a user can read, less than a fast interface has
	watchBuffer    = 1 << 20 // bytes
)

// watchOptions are the options of a capture of the packets of a row.
func (s *sources) watchOptions(c choice) (capture.Options, error) {
	o := capture.Options{Interfaces: c.interfaces, Direction: s.o.direction, Filter: s.filterOf(c), FilterSets: s.o.filter.Sets.Known(), VXLANPort: s.o.filter.VXLANPort(), Buffer: watchBuffer, MaxRate: shownPerSecond}
	o.VLANAware = s.o.filter.VLANAware || s.o.filter.Text == "" // as flows and protocols are counted
	if slices.Contains(o.Interfaces, "") {
		o.Interfaces = s.names()
	}
	if len(o.Interfaces) == 0 {
		return o, errors.New("there is no interface whose packets could be shown")
	}
	if c.loss != nil {
		return s.lossOptions(o, c.loss)
	}
	traced, others := 0, 0 // interfaces
	for _, one := range s.all {
		switch {
		case !slices.Contains(o.Interfaces, one.name):
		case one.traced:
			traced++
		default:
			others++
			if c.verdict != nil {
				o.Interfaces = slices.DeleteFunc(slices.Clone(o.Interfaces), func(name string) bool { return name == one.name })
			}
		}
	}
	switch {
	case o.Direction == capture.Out:
	case c.verdict != nil:
		o.Hooks, o.Verdicts, o.Direction = []capture.Hook{capture.Exit}, []capture.Verdict{*c.verdict}, capture.In
	case traced > 0 && others == 0:
		o.Hooks = []capture.Hook{capture.Exit} // where verdicts are known
	case traced == 0:
		o.At = capture.AtIngress // below our own program at XDP, too
	default:
		o.At = capture.AtAuto
	}
	if len(o.Hooks) > 0 && s.o.program != "" {
		o.Targets = []string{s.o.program}
	}
	return o, nil
}

// lossOptions select the packets of a loss.
func (s *sources) lossOptions(o capture.Options, l *drops.Loss) (capture.Options, error) {
	if l.Stage == drops.Card {
		return o, errors.New("no program sees the packets that a card loses")
	}
	o.StackDrops, o.Direction = true, capture.In
	if l.Stage != drops.XDP {
		o.Reasons = []string{l.Reason}
	}
	if slices.Contains(s.names(), l.Device) {
		o.Interfaces = []string{l.Device}
	}
	return o, nil
}

// filterOf is the filter of a row combined with the user's.
func (s *sources) filterOf(c choice) string {
	switch own := s.o.filter.Text; {
	case own == "":
		return c.filter
	case c.filter == "":
		return own
	default:
		return fmt.Sprintf("(%s) and (%s)", c.filter, own)
	}
}

// title describes a row's packets.
func (r *row) title() string {
	text := strings.Join(slices.DeleteFunc(slices.Clone(r.names), func(cell string) bool { return cell == "" }), " ")
	if r.from != "" {
		text += " " + r.from + " to " + r.to + " and back"
	}
	return "packets: " + text
}

// openWatch begins to capture. before has the lines that are already shown.
func openWatch(title string, options capture.Options, path string, before []string) (w *watch, err error) {
	w = &watch{title: title, path: path, ended: make(chan struct{}), lines: before}
	if path != "" {
		options.MaxRate = 0
	}
	options.Notice = func(err error) { w.add("xdpcap: " + err.Error()) }
	session, err := capture.Open(options)
	if err != nil {
		return nil, err
	}
	var outputs []capture.Output
	if path != "" {
		f, err := file.Open(path, file.Options{Application: "xdpcap " + frame.Version()})
		if err != nil {
			return nil, errors.Join(err, session.Close())
		}
		outputs = append(outputs, f)
	}
	w.captured = func() (n uint64) {
		all, _ := session.Accounts()
		for _, a := range all {
			n += a.Captured
		}
		return n
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	printer := lines.NewPrinter(w, "the screen", func() error { return nil }, lines.Format{})
	go func() {
		defer close(w.ended)
		_, err := session.Run(ctx, append(outputs, &preview{Printer: printer})...)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.err = err
	}()
	return w, nil
}

// Write adds the lines of packets.
func (w *watch) Write(text []byte) (int, error) {
	w.add(strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")...)
	return len(text), nil
}

func (w *watch) add(lines ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, lines...)
	w.lines = slices.Clone(w.lines[max(0, len(w.lines)-keptLines):])
}

// view is the watch as the screen shows it.
func (w *watch) view() *watchView {
	n := w.captured()
	w.mu.Lock()
	defer w.mu.Unlock()
	v := &watchView{title: w.title, lines: w.lines, state: frame.Packets(n)}
	if w.path != "" {
		v.state += " written to " + w.path
	}
	if w.err != nil {
		v.state = w.err.Error()
	}
	return v
}

// close ends the capture, and returns when its file is complete.
func (w *watch) close() error {
	w.cancel()
	<-w.ended
	return w.err
}

// A preview prints the first packets of each tenth of a second, up to shownPerSecond.
type preview struct {
	*lines.Printer
	since time.Time // the beginning of the tenth
	left  int       // packets that may be printed in it
}

// Write implements capture.Output.
func (p *preview) Write(packets []capture.Packet) error {
	if now := time.Now(); now.Sub(p.since) >= time.Second/10 {
		p.since, p.left = now, shownPerSecond/10
	}
	n := min(len(packets), p.left)
	p.left -= n
	return p.Printer.Write(packets[:n])
}

// newFile is the name of a file that does not exist yet.
func newFile(now time.Time) string {
	name := "xdpcap_" + now.Format("20060102_150405")
	path := name + ".pcapng"
	for i := 2; ; i++ {
		if _, err := os.Lstat(path); err != nil {
			return path
		}
		path = fmt.Sprintf("%s_%d.pcapng", name, i)
	}
}
