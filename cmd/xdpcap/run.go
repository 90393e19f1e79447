package main

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/xdpcap/xdpcap/capture"
)

// runCapture is the default command: from the flags to the closing lines.
func runCapture(o *captureOptions) error {
	g := guard{interfaces: o.interfaces, yes: o.yes}
	if o.sink {
		g.flag = "--sink"
	}
	ctx, err := begin(g)
	if err != nil {
		return err
	}
	var file *outputFile
	if o.write != "" {
		if file, err = openOutput(o.write); err != nil {
			return err
		}
	}
	notices := make(notices, 16)
	options := o.session()
	options.Notice = notices.add
	s, err := capture.Open(options)
	if err != nil {
		if file != nil {
			file.abandon()
		}
		return err
	}
	defer s.Close()
	r := &captureRun{o: o, session: s, notices: notices, file: file, started: time.Now()}
	return r.run(ctx)
}

// A captureRun is one capture from its first packet to its closing lines.
type captureRun struct {
	o       *captureOptions
	session *capture.Session
	notices notices
	started time.Time
	file    *outputFile     // nil without -w
	writer  *capture.Writer // nil without -w
}

func (r *captureRun) run(ctx context.Context) error {
	outputs, err := r.outputs()
	if err != nil {
		return err
	}
	reporter := r.reporter()
	reporter.start()
	accounts, err := r.capture(ctx, outputs)
	took := time.Since(r.started)
	if r.file != nil {
		if closing := r.file.Close(); err == nil && closing != nil {
			err = r.file.explain(closing)
		}
	}
	reporter.end() // the file is whole before this waits for a reader of stderr
	// The accounts are those of the file, if there is one.
	if len(accounts) == 0 || accounts[0] == nil {
		return err
	}
	account := accounts[0].Total()
	if r.o.json {
		return errors.Join(err, writeJSON(stderr, r.session.Sources(), account, took))
	}
	writeCounts(stderr, account)
	if account.Lost > 0 && err == nil {
		say(stderr, "packets were lost: a larger -B, a smaller -s, a filter or --sample help")
	}
	return err
}

// outputs are where the packets go: the file first.
func (r *captureRun) outputs() (outputs []capture.Output, err error) {
	if r.file != nil {
		if err := r.file.begin(); err != nil {
			return nil, r.file.explain(err)
		}
		r.writer = capture.NewWriter(r.file, r.o.writer(r.file.name))
		outputs = append(outputs, r.writer)
	}
	if r.file == nil || r.o.print {
		verbosity := r.o.verbose
		if r.o.quiet {
			verbosity = -1
		}
		outputs = append(outputs, newPrinter(stdout, verbosity))
	}
	return outputs, nil
}

// capture moves packets until something ends the session. The error is nil when the end was asked
// for.
func (r *captureRun) capture(ctx context.Context, outputs []capture.Output) ([]capture.Accounts, error) {
	if r.o.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.o.duration)
		defer cancel()
	}
	reader := stdout
	if r.file != nil {
		reader = r.file
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var gone error
	watch, err := watchReader(reader.File, func() {
		gone = reader.explain(unix.EPIPE)
		stop(gone)
	})
	if err != nil {
		return nil, err
	}
	accounts, err := r.session.Run(ctx, outputs...)
	watch.stop()
	if err == nil {
		err = gone
	}
	return accounts, err
}

// reporter keeps a line of counts on a terminal that is not used otherwise.
func (r *captureRun) reporter() *reporter {
	rep := &reporter{out: stderr, session: r.session, notices: r.notices}
	if r.writer != nil {
		rep.size = r.writer.Size
		rep.live = !r.o.quiet && !r.o.print && term.IsTerminal(int(os.Stderr.Fd()))
	}
	return rep
}
