package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/xdpcap/xdpcap/capture"
)

// runCapture is the default command: from the flags to the closing lines.
func runCapture(o *captureOptions) error {
	// A reader that goes away is an error of write, not the end of the process.
	signal.Ignore(unix.SIGPIPE)
	if o.sink {
		if err := (guard{flag: "--sink", interfaces: o.interfaces, yes: o.yes}).check(); err != nil {
			return err
		}
	}
	var out *output
	if o.write != "" {
		var err error
		if out, err = openOutput(o.write); err != nil {
			return err
		}
	}
	// Before Open: a signal must find its handler as soon as something is attached.
	ctx, cancel := untilSignal()
	defer cancel()
	s, err := capture.Open(o.session())
	if err != nil {
		if out != nil {
			out.abandon()
		}
		return err
	}
	defer s.Close()
	r := &captureRun{o: o, session: s, out: out, started: time.Now()}
	if out != nil {
		if err := out.begin(); err != nil {
			return out.explain(err)
		}
		r.writer = capture.NewWriter(out, s, o.writer())
	}
	if out == nil || o.print {
		verbosity := o.verbose
		if o.quiet {
			verbosity = -1
		}
		r.printer = newPrinter(os.Stdout, verbosity)
	}
	return r.run(ctx)
}

// A captureRun is one capture from its first packet to its closing lines.
type captureRun struct {
	o       *captureOptions
	session *capture.Session
	started time.Time

	out     *output         // nil without -w
	writer  *capture.Writer // nil without -w
	printer *printer        // nil without printing
}

func (r *captureRun) run(ctx context.Context) error {
	err := r.capture(ctx)
	took := time.Since(r.started)
	stats, statsErr := r.session.Stats()
	if r.out != nil {
		closing := errors.Join(r.writer.Close(stats), r.out.Close())
		if err == nil && closing != nil {
			err = r.out.explain(closing)
		}
		stats = r.writer.Account(stats)
	}
	if statsErr != nil {
		return errors.Join(err, statsErr)
	}
	if r.o.json {
		return errors.Join(err, writeJSON(os.Stderr, r.session.Interfaces(), stats, took))
	}
	writeCounts(os.Stderr, stats)
	if stats.Lost > 0 && err == nil {
		fmt.Fprintln(os.Stderr, "xdpcap: packets were lost: a larger -B, a smaller -s, a filter or --sample help")
	}
	return err
}

// capture moves packets until something ends the session, and takes what is left out of it. The error is
// nil when the end was asked for.
func (r *captureRun) capture(ctx context.Context) error {
	if r.o.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.o.duration)
		defer cancel()
	}
	defer context.AfterFunc(ctx, r.session.Stop)()

	reader := stdout
	if r.out != nil {
		reader = r.out
	}
	var gone bool
	watch, err := watchReader(reader.File, func() {
		gone = true
		r.session.Stop()
	})
	if err != nil {
		return err
	}
	err = r.copyPackets()
	r.session.Stop()
	for p := new(capture.Packet); r.session.Read(p) == nil; {
	}
	watch.stop()
	if err == nil && gone {
		err = reader.explain(unix.EPIPE)
	}
	return err
}

// copyPackets returns nil at the end of the session, else what ended it early.
func (r *captureRun) copyPackets() error {
	size := func() int64 { return 0 }
	live := false
	if r.writer != nil {
		size = r.writer.Size
		live = !r.o.quiet && r.printer == nil && term.IsTerminal(int(os.Stderr.Fd()))
	}
	defer startReporter(os.Stderr, r.session, size, live).end()
	announce(os.Stderr, r.session.Interfaces(), r.session.Options())

	var p capture.Packet
	for {
		if !r.session.Pending() {
			if err := r.flush(); err != nil {
				return err
			}
		}
		if err := r.session.Read(&p); err == io.EOF { // never wrapped, and asked for every packet
			return r.flush()
		} else if err != nil {
			return errors.Join(err, r.flush())
		}
		if err := r.put(&p); err != nil {
			return err
		}
	}
}

func (r *captureRun) put(p *capture.Packet) error {
	if r.writer != nil {
		if err := r.writer.Write(p); err != nil {
			return r.out.explain(err)
		}
	}
	if r.printer != nil {
		if err := r.printer.print(time.Unix(0, p.Time), p.Data, p.WireLen); err != nil {
			return stdout.explain(err)
		}
	}
	return nil
}

// flush hands on what was buffered: done whenever there is nothing to read.
func (r *captureRun) flush() error {
	if r.writer != nil {
		if err := r.writer.Flush(); err != nil {
			return r.out.explain(err)
		}
	}
	if r.printer != nil {
		if err := r.printer.flush(); err != nil {
			return stdout.explain(err)
		}
	}
	return nil
}
