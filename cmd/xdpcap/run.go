package main

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/filter"
)

// runCapture is the default command, from its flags to its closing lines or object. A mistake in
// the flags is an error with which it ends at once.
func runCapture(o *captureOptions, cmd *cobra.Command, mistake error) (err error) {
	r := &captureRun{o: o, text: stderr, notices: make(notices, 16)}
	if o.json.given {
		if r.objects, err = o.json.open(); err != nil {
			return errors.Join(mistake, err)
		}
		if r.objects == stderr {
			r.text = io.Discard
		}
	}
	if o.extcap.capture {
		r.text, r.losses = io.Discard, stderr
	}
	var accounts capture.Accounts
	if err = mistake; err == nil {
		accounts, err = r.run(cmd)
	}
	if !o.json.given {
		return err
	}
	if faulty := new(filter.Error); errors.As(err, &faulty) {
		err = o.json.explain(o.filter.words, err)
	}
	if failed := r.printSummary(accounts, err); failed != nil {
		return errors.Join(err, failed)
	}
	return err
}

// A captureRun is one capture from its flags to its closing lines or object.
type captureRun struct {
	o       *captureOptions
	text    io.Writer // for messages: stderr, or nothing where the objects of --json go there
	losses  io.Writer // for the notice of a loss; nil where text has it
	objects *console  // nil without --json

	exporter *exporter        // nil without --listen
	session  *capture.Session // nil until the capture has begun
	started  time.Time
	file     *capture.File     // nil without -w
	recorder *capture.Recorder // that writes files in its place; nil without --ring
	notices  notices
	noticed  []string // the notices so far

	finished *finishedFiles // nil where nothing is to be told of finished files
}

// run returns the accounts of the file or, without one, of what was printed. They are nil after an
// error that kept the capture from beginning.
func (r *captureRun) run(cmd *cobra.Command) (accounts capture.Accounts, err error) {
	if err := r.o.readFilter(cmd); err != nil {
		return nil, err
	}
	if err := r.o.check(cmd.Flags().Changed); err != nil {
		return nil, err
	}
	g := guard{interfaces: r.o.interfaces, yes: r.o.yes}
	if r.o.sink {
		g.flag = "--sink"
	}
	ctx, err := begin(g)
	if err != nil {
		return nil, err
	}
	if r.exporter, err = newExporter(r.o.listen); err != nil {
		return nil, err
	}
	defer r.exporter.close()
	if err := r.o.sandbox.plan(r.o.series != nil, r.o.rotate.lasting(r.o.write), r.o.json.path()); err != nil {
		return nil, err
	}
	if r.o.recorder.size.bytes > 0 {
		if err := r.openRecorder(); err != nil {
			return nil, err
		}
		defer r.recorder.Close()
		defer r.triggerBySignal()()
	} else if r.o.write != "" || r.o.extcap.capture {
		if r.file, err = r.openFile(ctx); err != nil {
			return nil, err
		}
		defer r.file.Close()
		written.file.Store(r.file)
	}
	options := r.o.session()
	options.Notice = r.notices.add
	if r.session, err = capture.Open(options); err != nil {
		return nil, err
	}
	defer r.session.Close()
	r.started = time.Now()
	if err := r.enterSandbox(); err != nil {
		return nil, err
	}
	r.exporter.serve(newRegistry(newCollector(r.read, captureMetrics(r.session.Sources(), r.session.Options().Transport, r.started))))
	return r.follow(ctx)
}

// openFile opens where packets are written to.
func (r *captureRun) openFile(ctx context.Context) (*capture.File, error) {
	if r.o.extcap.capture {
		return openFifo(ctx, r.o.extcap.fifo, r.o.writer())
	}
	if err := r.watchFiles(); err != nil {
		return nil, err
	}
	return openOutput(r.o.write, r.o.series, r.o.writer())
}

// enterSandbox gives up privileges: everything is attached and open, and no packet has been looked
// at.
func (r *captureRun) enterSandbox() error {
	made := []interface{ Give(uid, gid int) error }{&r.o.json}
	if r.file != nil {
		made = append(made, r.file)
	}
	return r.o.sandbox.enter(made...)
}

// follow captures until the session ends, and ends the messages about it.
func (r *captureRun) follow(ctx context.Context) (capture.Accounts, error) {
	reporter := r.reporter()
	reporter.start()
	ctx, cancel := forDuration(ctx, r.o.duration)
	defer cancel()
	all, err := r.session.Run(ctx, r.outputs()...)
	reporter.end() // the file is whole before this waits for a reader of stderr
	if r.objects == nil {
		writeCounts(r.text, all[0].Total())
	}
	if r.finished != nil {
		r.finished.wait(reporter.note)
	}
	return all[0], err
}

// watchFiles lets what is to be told of finished files be told.
func (r *captureRun) watchFiles() (err error) {
	series := r.o.series
	if series == nil {
		return nil
	}
	output := os.Stderr
	if r.text != stderr {
		output = nil // it has JSON objects and errors only
	}
	if r.finished, err = newFinishedFiles(&r.o.rotate, output, r.notices.add); err != nil {
		return err
	}
	series.Finished = func(path string) {
		if r.o.rotate.printFiles {
			r.finished.print(path)
		}
		if r.o.rotate.command != "" {
			r.finished.run(path)
		}
	}
	return nil
}

// printCounts prints the counts so far.
func (r *captureRun) printCounts() {
	accounts, err := r.session.Accounts()
	switch {
	case err != nil:
	case r.objects != nil:
		r.printSummary(accounts, nil)
	default:
		writeCounts(r.text, accounts.Total())
	}
}

// outputs are where the packets go: the file first.
func (r *captureRun) outputs() (outputs []capture.Output) {
	if r.file != nil {
		outputs = append(outputs, r.file)
	}
	if r.recorder != nil {
		outputs = append(outputs, r.recorder)
	}
	if r.prints() {
		outputs = append(outputs, newPrinter(stdout{}, checkStdout, r.o.printing.format(colored(os.Stdout))))
	}
	if r.o.account {
		outputs = append(outputs, accountOnly{})
	}
	return outputs
}

// prints tells whether the packets are printed.
func (r *captureRun) prints() bool {
	return r.o.print || r.file == nil && r.recorder == nil && !r.o.account
}

// reporter keeps a line of counts on a terminal that is not used otherwise.
func (r *captureRun) reporter() *reporter {
	live := r.file != nil && !r.o.printing.quiet && !r.o.print && r.text == stderr && term.IsTerminal(int(os.Stderr.Fd()))
	return &reporter{captureRun: r, live: live}
}
