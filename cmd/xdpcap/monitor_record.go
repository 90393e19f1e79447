package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/xdpcap/xdpcap/internal/meter"
)

// runRecord is monitor --record. It prints single events until there were as many as asked for.
func runRecord(o *monitorOptions, given func(flag string) bool) (err error) {
	if err := o.checkRecord(given); err != nil {
		return err
	}
	ctx, err := begin(guard{})
	if err != nil {
		return err
	}
	m, err := openMonitor(o)
	if err != nil {
		return err
	}
	defer func() {
		if closing := m.Close(); err == nil {
			err = closing
		}
	}()
	defer context.AfterFunc(ctx, func() { m.Stop() })()
	say(stderr, "listening on %v", m)
	if err := m.record(os.Stdout, o.record); err != nil {
		return err
	}
	c, err := m.Read()
	if err == nil && c.Lost > 0 {
		say(stderr, "%d events were lost, they came too fast to print: -i and --program restrict them", c.Lost)
	}
	return err
}

// record prints events until there have been so many, or the tracepoints are stopped.
func (m *monitor) record(w io.Writer, events uint64) error {
	for range events {
		r, err := m.Next()
		if errors.Is(err, os.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		line := newRecordLine(r)
		if m.o.json {
			err = json.NewEncoder(w).Encode(line)
		} else {
			_, err = fmt.Fprintln(w, line.text(r.Case.Event))
		}
		if err != nil {
			return explainPrint(err)
		}
	}
	return nil
}

// recordLine is an event as --record --json prints it.
type recordLine struct {
	Time time.Time `json:"time"`
	CPU  int       `json:"cpu"`
	eventCase
	Packets  uint64  `json:"packets"`
	Drops    uint64  `json:"drops"`
	Program  uint32  `json:"program,omitempty"`   // id
	Index    *uint32 `json:"index,omitempty"`     // redirects: the target's interface or map entry
	Verdict  *uint32 `json:"verdict,omitempty"`   // xdp_exception: what the program returned
	MemoryID uint32  `json:"memory_id,omitempty"` // mem_*
	Sched    *bool   `json:"sched,omitempty"`     // cpumap_kthread: it had slept or made way
}

func newRecordLine(r meter.Record) recordLine {
	l := recordLine{
		Time:      r.Time.UTC(),
		CPU:       r.CPU,
		eventCase: newEventCase(r.Case),
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
func (l *recordLine) text(event meter.Event) string {
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
	if l.Packets+l.Drops > 1 {
		s += fmt.Sprintf(" packets %d drops %d", l.Packets, l.Drops)
	}
	if l.Program != 0 {
		s += fmt.Sprintf(" program %d", l.Program)
	}
	return shorten(printable(s), maxColumns)
}
