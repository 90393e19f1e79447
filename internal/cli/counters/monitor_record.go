package counters

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/meter"
)

// A recordLimit is the value of --record, which may be omitted: the number of events to print. The
// number may also be the argument after the flag, because pflag takes an optional value only after
// an equals sign.
type recordLimit struct {
	given  bool
	events uint64 // 0 = until a signal
}

// noLimit is the text that pflag passes to Set if the flag has no value.
const noLimit = "all"

func (r *recordLimit) Set(text string) (err error) {
	r.given, r.events = true, 0
	if text != noLimit {
		r.events, err = strconv.ParseUint(text, 10, 64)
		if err != nil || r.events == 0 {
			return errors.New("must be a whole number of at least 1, or be omitted")
		}
	}
	return nil
}

func (r *recordLimit) String() string { return "" }

func (r *recordLimit) Type() string { return "events" }

// arguments parses the number after --record.
func (r *recordLimit) arguments(cmd *cobra.Command, args []string) error {
	if !r.given || r.events > 0 || len(args) != 1 {
		return frame.NoArguments(cmd, args)
	}
	if err := r.Set(args[0]); err != nil {
		return fmt.Errorf("--record %s: %w", args[0], err)
	}
	return nil
}

// CountingFlags are flags of all counter commands that monitor --record refuses: they are about
// counters, and it prints single events.
var CountingFlags = []string{"interval", "count", "per-cpu", "listen", "quiet"}

// runRecord is monitor --record: it prints single events, as many as the flag's number.
func (o *MonitorOptions) runRecord() (err error) {
	if len(o.Interfaces) > 1 {
		return errors.New("--record prints the events of one interface or of all: give one -i or none")
	}
	frame.ForgetSettings(o.Flags, CountingFlags...)
	for _, flag := range CountingFlags {
		if o.Flags.Changed(flag) {
			return fmt.Errorf("--record prints single events, and --%s is about counters: use one of them", flag)
		}
	}
	if err := o.checkPod(); err != nil {
		return err
	}
	if err := frame.CheckPrints(); err != nil {
		return err
	}
	ctx, err := o.Process.Begin(frame.Guard{Interfaces: o.Interfaces})
	if err != nil {
		return err
	}
	iface := "" // all
	if len(o.Interfaces) > 0 {
		iface = o.Interfaces[0]
	}
	m, err := o.open(iface)
	if err != nil {
		return err
	}
	defer func() {
		if closing := m.Close(); err == nil {
			err = closing
		}
	}()
	if err := frame.EnterCounters(o.Process, o.noSandbox, false, m.Capabilities()); err != nil {
		return err
	}
	frame.Say(o.Process.Stderr, "listening on %v", m)
	ctx, cancel := frame.ForDuration(ctx, o.Duration)
	defer cancel()
	defer context.AfterFunc(ctx, func() { m.Stop() })()
	if err := m.record(o.Process.Stdout.File, o.record.events); err != nil {
		return err
	}
	c, err := m.Read()
	if err == nil && c.Lost > 0 {
		frame.Say(o.Process.Stderr, "%d events were lost, because they came too fast to print: restrict them with -i or --program", c.Lost)
	}
	return err
}

// record prints this many events; 0 = no limit. It ends earlier when the tracepoints are stopped.
func (m *monitor) record(w io.Writer, events uint64) error {
	for n := uint64(0); events == 0 || n < events; n++ {
		r, err := m.Next()
		if errors.Is(err, os.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		line := newRecordLine(r)
		if m.o.JSON {
			err = message.NewJSONEncoder(w).Encode(line)
		} else {
			_, err = fmt.Fprintln(w, line.text(r.Case.Event))
		}
		if err != nil {
			return frame.ExplainPrint(err)
		}
	}
	return nil
}

// RecordLine is an event as --record --json prints it.
type RecordLine struct {
	Time time.Time `json:"time"`
	CPU  int       `json:"cpu"`
	EventCase
	Packets  uint64  `json:"packets"`
	Drops    uint64  `json:"drops"`
	Program  uint32  `json:"program,omitempty"`   // id
	Index    *uint32 `json:"index,omitempty"`     // of redirects: the target's interface or map entry
	Verdict  *uint32 `json:"verdict,omitempty"`   // xdp_exception: the number that the program returned
	MemoryID uint32  `json:"memory_id,omitempty"` // mem_*
	Sched    *bool   `json:"sched,omitempty"`     // cpumap_kthread: the thread slept or yielded its CPU
}

func newRecordLine(r meter.Record) RecordLine {
	l := RecordLine{
		Time:      r.Time.UTC(),
		CPU:       r.CPU,
		EventCase: newEventCase(r.Case),
		Packets:   r.Count.Packets,
		Drops:     r.Count.Drops,
		Program:   r.Program,
		MemoryID:  r.MemoryID,
	}
	switch r.Case.Event {
	case meter.Redirect, meter.RedirectErr:
		l.Index = &r.Index
	case meter.Exception:
		l.Verdict = &r.Verdict
	case meter.CPUMapKthread:
		sched := r.Count.Sched > 0
		l.Sched = &sched
	}
	return l
}

// text is the event as a line.
func (l *RecordLine) text(event meter.Event) string {
	var line strings.Builder
	add := func(format string, args ...any) { fmt.Fprintf(&line, format, args...) }
	add("%s cpu %d %s", l.Time.Local().Format("15:04:05.000000"), l.CPU, l.Event)
	if l.ToCPU != nil {
		add(" to cpu %d", *l.ToCPU)
	}
	if words := l.words(event); words != "" {
		add(" %s", words)
	}
	if l.Index != nil {
		add(" to %d", *l.Index)
	}
	if l.Verdict != nil {
		add(" verdict %d", *l.Verdict)
	}
	if l.MemoryID != 0 {
		add(" id %d", l.MemoryID)
	}
	isBulk := event == meter.DevmapXmit || event == meter.BulkTx || event == meter.CPUMapEnqueue
	if l.Packets+l.Drops > 1 || l.Drops > 0 && isBulk {
		add(" packets %d drops %d", l.Packets, l.Drops)
	}
	if l.Program != 0 {
		add(" program %d", l.Program)
	}
	return frame.Shorten(message.Escape(line.String()), frame.MaxColumns)
}
