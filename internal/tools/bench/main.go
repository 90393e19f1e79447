// Command bench measures xdpcap beside other tools and beside no capture at all, prints tables of
// ratios, and makes the chart and the tables of the documentation from the same figures. make bench
// starts it.
//
//	bench [-quick] [-against OLD] [-disk DIR] [-json FILE] XDPCAP
//	                                               measures, and OLD in turn with it
//	bench -from FILE [-svg FILE] [DOCUMENT...]     draws, and fills in, what was measured
//	bench -from FILE                               prints it again
//
// It needs root and two CPUs that do nothing else. Traffic comes from CPU 0, where the receiving
// side of the veth pair also runs. The tool under test is kept on CPU 1 and writes to /dev/null,
// unless a row says otherwise.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// timeLimit is when measuring stops: figures that are missing then say so. With -against it is
// twice that.
const timeLimit = 19 * time.Minute

func main() {
	if err := command(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", strings.ReplaceAll(err.Error(), "\n", "; "))
		os.Exit(1)
	}
}

func command(args []string) error {
	flags := flag.NewFlagSet("bench", flag.ExitOnError)
	quick := flags.Bool("quick", false, "measure everything once and shortly, to see that it works")
	against := flags.String("against", "", "measure this `XDPCAP`, too, in turn with the other")
	disk := flags.String("disk", "/var/tmp", "write files to this `DIRECTORY`, to measure a disk")
	json := flags.String("json", "", "write what was measured to this `FILE`")
	from := flags.String("from", "", "measure nothing, and read what was measured from this `FILE`")
	svg := flags.String("svg", "", "write the chart to this `FILE`")
	flags.Parse(args)

	if *from != "" {
		r, err := readReport(*from)
		if err != nil {
			return err
		}
		if *svg == "" && flags.NArg() == 0 {
			r.print(os.Stdout)
			return nil
		}
		return r.publish(*svg, flags.Args())
	}
	if flags.NArg() != 1 || *svg != "" {
		return errors.New("usage: bench [-quick] [-against OLD] [-disk DIR] [-json FILE] XDPCAP, " +
			"or bench -from FILE [-svg FILE] [DOCUMENT...]")
	}
	effort := fullEffort
	if *quick {
		effort = quickEffort
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	paths := []string{flags.Arg(0)}
	if *against != "" {
		paths = append(paths, *against)
	}
	r, err := measure(ctx, paths, *disk, effort)
	progress("")
	if err != nil {
		return err
	}
	r.print(os.Stdout)
	if *json == "" {
		return nil
	}
	return r.write(*json)
}

// publish draws the chart, and fills the tables into documents.
func (r *Report) publish(svg string, documents []string) error {
	if svg != "" {
		if err := r.writeChart(svg); err != nil {
			return err
		}
	}
	for _, d := range documents {
		if err := r.fillFile(d); err != nil {
			return err
		}
	}
	return nil
}

// A bench is a run of everything.
type bench struct {
	effort
	programs []*program // that are measured in turn
	disk     string     // the directory for files on a disk
}

// measure measures everything with each xdpcap of paths in turn, and returns the first one's
// report, which contains that of the second. Figures that cannot be measured are missing in the
// report, with the reason; the error is for failures that leave nothing to report.
func measure(ctx context.Context, paths []string, disk string, e effort) (*Report, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("needs root, for network namespaces and XDP: use sudo")
	}
	if runtime.NumCPU() < 2 {
		return nil, errors.New("needs two CPUs: one sends, one runs the tool")
	}
	b := &bench{effort: e, disk: disk}
	start := time.Now()
	for _, path := range paths {
		p, err := newProgram(path)
		if err != nil {
			return nil, err
		}
		p.report.Measured = start.UTC().Truncate(time.Second)
		p.report.Machine = describeMachine(append(p.tools(), others()...))
		b.programs = append(b.programs, p)
	}
	timed, cancel := context.WithTimeout(ctx, time.Duration(len(paths))*timeLimit)
	defer cancel()
	for _, part := range []func(context.Context) error{
		b.measureCosts, b.measureDrains, b.measureStalls, b.measureTwoCPUs, b.measureFiles, b.measureFrames,
	} {
		err := part(timed)
		if ctx.Err() != nil {
			return nil, errors.New("interrupted")
		}
		if err != nil {
			b.each(nil, func(r *Report) { r.Notes = append(r.Notes, missing(timed, err)) })
		}
	}
	b.each(nil, func(r *Report) { r.Seconds = time.Since(start).Round(time.Second).Seconds() })
	r := b.programs[0].report
	if len(paths) > 1 {
		r.Before = b.programs[1].report
	}
	return r, nil
}

// each calls f with the report of a program, or with all reports if p is nil: figures without
// xdpcap are in every report.
func (b *bench) each(p *program, f func(*Report)) {
	for _, some := range b.programs {
		if p == nil || p == some {
			f(some.report)
		}
	}
}

// progress shows on a terminal what is being measured, in a line that it overwrites.
func progress(format string, args ...any) {
	if term.IsTerminal(int(os.Stderr.Fd())) {
		fmt.Fprintf(os.Stderr, "\r"+format+"\x1b[K", args...)
	}
}
