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

// openOutputs opens all outputs except the printer.
func (r *captureRun) openOutputs(ctx context.Context) error {
	if r.o.extcap.Captures {
		fifo, err := r.o.extcap.OpenFifo(ctx, r.writer(&outputs.Target{}), &r.o.Sandbox)
		if err == nil {
			r.Add(r.o.extcap.Fifo, fifo)
		}
		return err
	}
	messages := r.o.Process.Stderr.File()
	if r.text != r.o.Process.Stderr {
		messages = nil // stderr has only JSON objects and errors
	}
	return r.Open(ctx, messages, func(t *outputs.Target) (bool, error) {
		if r.o.recorder.size.Bytes == 0 || !t.IsFile() {
			return false, nil
		}
		err := r.openRecorder()
		r.Outputs = append(r.Outputs, outputs.Named{Live: recorderOutput{r.recorder}, Name: t.Name})
		return true, err
	})
}

// closeOutputs releases outputs that were not ended.
func (r *captureRun) closeOutputs() {
	r.Destinations.Close()
	if r.recorder != nil {
		r.recorder.Close()
	}
}

// writer returns the options for writing a file, whose statistics have the companions' counters.
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

// allOutputs returns all outputs for packets, first those of -w in their order.
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

// openPrinter opens the output that prints packets, as text or as lines of JSON or CSV.
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

// prints reports whether the packets are printed.
func (r *captureRun) prints() bool {
	return r.o.Print || len(r.Outputs) == 0 && !r.o.account
}
