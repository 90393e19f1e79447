package counters

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/meter"
)

// A recordLimit is the value of --record: whether it was given, and perhaps how many events to
// print. The number may also be an argument by itself, because pflag takes an optional value only
// after an equals sign.
type recordLimit struct {
	given  bool
	events uint64 // 0 = until a signal
}

// noLimit is what pflag hands to Set if the flag has no value.
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

// arguments takes the number after --record.
func (r *recordLimit) arguments(cmd *cobra.Command, args []string) error {
	if !r.given || r.events > 0 || len(args) != 1 {
		return frame.NoArguments(cmd, args)
	}
	if err := r.Set(args[0]); err != nil {
		return fmt.Errorf("--record %s: %w", args[0], err)
	}
	return nil
}

// runRecord is monitor --record. It prints single events until there were as many as --record says.
func runRecord(o *MonitorOptions) (err error) {
	if len(o.Interfaces) > 1 {
		return errors.New("--record prints the events of one interface or of all: give one -i or none")
	}
	ctx, err := o.beginEvents("--record prints single events")
	if err != nil {
		return err
	}
	iface := "" // all
	if len(o.Interfaces) > 0 {
		iface = o.Interfaces[0]
	}
	m, err := openMonitor(o, iface)
	if err != nil {
		return err
	}
	defer func() {
		if closing := m.Close(); err == nil {
			err = closing
		}
	}()
	if err := o.enterEvents(m); err != nil {
		return err
	}
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

// record prints that many events; 0 = no limit. It ends earlier when the tracepoints are stopped.
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
	Verdict  *uint32 `json:"verdict,omitempty"`   // xdp_exception: what the program returned
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
	s := fmt.Sprintf("%s cpu %d %s", l.Time.Local().Format("15:04:05.000000"), l.CPU, l.Event)
	if l.ToCPU != nil {
		s += fmt.Sprintf(" to cpu %d", *l.ToCPU)
	}
	if w := l.words(event); w != "" {
		s += " " + w
	}
	if l.Index != nil {
		s += fmt.Sprintf(" to %d", *l.Index)
	}
	if l.Verdict != nil {
		s += fmt.Sprintf(" verdict %d", *l.Verdict)
	}
	if l.MemoryID != 0 {
		s += fmt.Sprintf(" id %d", l.MemoryID)
	}
	isBulk := event == meter.DevmapXmit || event == meter.BulkTx || event == meter.CPUMapEnqueue
	if l.Packets+l.Drops > 1 || l.Drops > 0 && isBulk {
		s += fmt.Sprintf(" packets %d drops %d", l.Packets, l.Drops)
	}
	if l.Program != 0 {
		s += fmt.Sprintf(" program %d", l.Program)
	}
	return frame.Shorten(message.Escape(s), frame.MaxColumns)
}
