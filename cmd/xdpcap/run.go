package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// runCapture is the default command: from the flags to the closing lines.
func runCapture(o *captureOptions) error {
	// A reader that goes away is an error of write, not the end of the process.
	signal.Ignore(unix.SIGPIPE)
	if o.sink && !o.yes {
		if err := refuseSink(o.interfaces); err != nil {
			return err
		}
	}
	var file *outputFile
	if o.write != "" {
		var err error
		if file, err = openOutput(o.write); err != nil {
			return err
		}
	}
	// Before Open: a signal must find its handler as soon as something is attached.
	ctx, cancel := untilSignal()
	defer cancel()
	s, err := capture.Open(o.session())
	if err != nil {
		if file != nil {
			file.abandon()
		}
		return err
	}
	defer s.Close()
	r := &captureRun{o: o, session: s, file: file, started: time.Now()}
	return r.run(ctx)
}

// refuseSink protects a machine from cutting itself off.
func refuseSink(interfaces []string) error {
	for _, name := range interfaces {
		ifi, err := xdp.InterfaceByName(name)
		if err != nil {
			return err
		}
		talks, err := ifi.HasAddress()
		if err != nil {
			return err
		}
		if talks {
			return fmt.Errorf("--sink drops every packet, and %s has an IP address: this machine would lose that "+
				"network; add --yes if that is meant", name)
		}
	}
	return nil
}

// A captureRun is one capture from its first packet to its closing lines.
type captureRun struct {
	o       *captureOptions
	session *capture.Session
	started time.Time
	file    *outputFile     // nil without -w
	writer  *capture.Writer // nil without -w
}

func (r *captureRun) run(ctx context.Context) error {
	outputs, err := r.outputs()
	if err != nil {
		return err
	}
	accounts, err := r.capture(ctx, outputs)
	took := time.Since(r.started)
	if r.file != nil {
		if closing := r.file.Close(); err == nil && closing != nil {
			err = r.file.explain(closing)
		}
	}
	// What counts is what is in the file, if there is one.
	if len(accounts) == 0 || accounts[0] == nil {
		return err
	}
	account := accounts[0].Total()
	if r.o.json {
		return errors.Join(err, writeJSON(os.Stderr, r.session.Sources(), account, took))
	}
	writeCounts(os.Stderr, account)
	if account.Lost > 0 && err == nil {
		fmt.Fprintln(os.Stderr, "xdpcap: packets were lost: a larger -B, a smaller -s, a filter or --sample help")
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
		outputs = append(outputs, printOutput{newPrinter(os.Stdout, verbosity)})
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
	reporter := r.startReporter()
	announce(os.Stderr, r.session.Sources(), r.session.Options())
	accounts, err := r.session.Run(ctx, outputs...)
	reporter.end()
	watch.stop()
	if err == nil {
		err = gone
	}
	return accounts, err
}

// startReporter answers SIGUSR1, and keeps a line of counts on a terminal that is not used
// otherwise.
func (r *captureRun) startReporter() *reporter {
	size, live := func() int64 { return 0 }, false
	if r.writer != nil {
		size = r.writer.Size
		live = !r.o.quiet && !r.o.print && term.IsTerminal(int(os.Stderr.Fd()))
	}
	return startReporter(os.Stderr, r.session, size, live)
}

// untilSignal returns a context that ends with a signal to end. A second signal finds the signal's
// default: it kills a process that hangs in a write.
func untilSignal() (context.Context, context.CancelFunc) {
	signals := []os.Signal{os.Interrupt, unix.SIGTERM}
	if !signal.Ignored(unix.SIGHUP) { // nohup
		signals = append(signals, unix.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// A printOutput prints packets on standard output.
type printOutput struct{ *printer }

func (o printOutput) Begin(capture.Description) error { return nil }

func (o printOutput) Write(p *capture.Packet) error {
	return o.explain(o.print(time.Unix(0, p.Time), p.Data, p.WireLen))
}

func (o printOutput) Flush() error { return o.explain(o.flush()) }

// End counts what could not be printed as captured.
func (o printOutput) End(final capture.Accounts) (capture.Accounts, error) {
	return final, o.Flush()
}

func (o printOutput) explain(err error) error {
	if err == nil {
		return nil
	}
	return stdout.explain(err)
}
