package capture

import (
	"context"
	"fmt"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/capture/file"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/cli/outputs"
	"github.com/xdpcap/xdpcap/internal/lines"
)

// openOutputs opens the outputs.
func (r *captureRun) openOutputs(ctx context.Context) error {
	if r.o.extcap.Captures {
		fifo, err := r.o.extcap.OpenFifo(ctx, r.writer(&outputs.Target{}), &r.o.Sandbox)
		if err == nil {
			r.Add(r.o.extcap.Fifo, fifo)
		}
		return err
	}
	output := r.o.Process.Stderr.File()
	if r.text != r.o.Process.Stderr {
		output = nil // stderr has only JSON objects and errors
	}
	return r.Open(ctx, output, func(t *outputs.Target) (bool, error) {
		if r.o.recorder.size.Bytes == 0 || !t.IsFile() {
			return false, nil
		}
		err := r.openRecorder()
		r.Outputs = append(r.Outputs, outputs.Named{Live: recorderOutput{r.recorder}, Name: t.Name})
		return true, err
	})
}

// closeOutputs releases what End has not released, or what was never begun.
func (r *captureRun) closeOutputs() {
	r.Destinations.Close()
	if r.recorder != nil {
		r.recorder.Close()
	}
}

// writer returns the options for writing a file. The counters are in its statistics.
func (r *captureRun) writer(t *outputs.Target) file.Options {
	w := r.o.Writer(t)
	w.Microseconds = r.o.printing.Microseconds()
	if !r.o.companions.isNone() {
		w.StatisticsInterval = r.o.SFlow.CounterInterval
		w.Comments = func(source int) []string {
			all := r.session.Sources()
			return r.companions.comments(all[source], all)
		}
	}
	return w
}

// allOutputs are all outputs for packets: first those that -w names, in that order.
func (r *captureRun) allOutputs() (outputs []capture.Output) {
	for _, out := range r.Outputs {
		outputs = append(outputs, out.Live)
	}
	switch {
	case r.o.account:
		outputs = append(outputs, accountOnly{})
	case r.printed != nil:
		outputs = append(outputs, r.printed)
	}
	return outputs
}

// openPrinter opens what prints packets.
func (r *captureRun) openPrinter() error {
	if err := frame.CheckNotClosed("packets", "-w /dev/null"); err != nil {
		return fmt.Errorf("print packets: %w", err)
	}
	out := r.o.Process.Stdout
	if !r.o.lines {
		r.printed = &outputs.Printed{Output: lines.NewPrinter(out, frame.StdoutName, out.Check, r.o.printing.Format(frame.Colored("auto", out.File)))}
		return nil
	}
	format, _ := r.o.Text()
	printer, err := file.New(out.File, file.Options{Format: format, Name: frame.StdoutName, Immediate: r.o.Unbuffer})
	if err == nil {
		r.printed = &outputs.Printed{Output: printer}
	}
	return err
}

// prints says whether the packets are printed.
func (r *captureRun) prints() bool {
	return r.o.Print || len(r.Outputs) == 0 && !r.o.account
}
