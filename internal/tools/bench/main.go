// Command bench measures xdpcap beside other tools and without a capture. Each measurement is a
// line in Go's benchmark format, which benchstat reads. From a file of these lines it checks the
// project's promises, and makes the chart and the tables of the documentation. make bench starts
// it.
//
//	bench [-quick] [-run REGEXP] [-against OLD] [-disk DIR] [-o FILE] XDPCAP
//	                                            measures XDPCAP, alternately with OLD
//	bench -from FILE [-against FILE]            prints the promises, and their earlier figures
//	bench -from FILE [-svg FILE] [DOCUMENT...]  draws the chart, and fills in the tables
//
// It needs root and two idle CPUs. Traffic comes from CPU 0, where the receiving side of the veth
// pair also runs. The tool under test is kept on CPU 1 and writes to /dev/null, except in rows that
// name other CPUs or another file.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// timeLimit is the time after which measuring stops: the other rows are then skipped. With -against
// it is doubled.
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
	chosen := flags.String("run", "", "measure only the rows whose names match this `REGEXP`, such as ^TCP/")
	against := flags.String("against", "", "measure this `XDPCAP`, too, alternately with the other, and write it to FILE.before; "+
		"or with -from, compare with this file")
	disk := flags.String("disk", "/var/tmp", "write files to this `DIRECTORY`, to measure a disk")
	out := flags.String("o", "", "write what was measured to this `FILE`, too")
	from := flags.String("from", "", "measure nothing, and read what was measured from this `FILE`")
	svg := flags.String("svg", "", "write the chart to this `FILE`")
	flags.Parse(args)

	if *from != "" {
		r, err := readResults(*from)
		if err != nil {
			return err
		}
		if *svg != "" || flags.NArg() > 0 {
			return r.publish(*svg, flags.Args())
		}
		var before *results
		if *against != "" {
			if before, err = readResults(*against); err != nil {
				return err
			}
		}
		r.printPromises(os.Stdout, before)
		return nil
	}
	if flags.NArg() != 1 || *svg != "" {
		return errors.New("usage: bench [-quick] [-run REGEXP] [-against OLD] [-disk DIR] [-o FILE] XDPCAP, " +
			"or bench -from FILE [-against FILE] [-svg FILE] [DOCUMENT...]")
	}
	b := &bench{effort: fullEffort, disk: *disk}
	var err error
	if b.chosen, err = regexp.Compile(*chosen); err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	if *quick {
		b.effort = quickEffort
	}
	return b.run(flags.Arg(0), *against, *out)
}

// publish draws the chart, and fills the tables into documents.
func (r *results) publish(svg string, documents []string) error {
	if svg != "" {
		if err := os.WriteFile(svg, []byte(r.chart()), 0o644); err != nil {
			return err
		}
	}
	for _, d := range documents {
		text, err := os.ReadFile(d)
		if err != nil {
			return err
		}
		filled, err := r.fill(string(text))
		if err != nil {
			return fmt.Errorf("%s: %w", d, err)
		}
		if err := os.WriteFile(d, []byte(filled), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// An effort is how often each row is measured.
type effort struct {
	// How often all rows are measured alternately: rounds at the shortest and the longest usual
	// frames, fewRounds elsewhere. Each round has bursts of traffic, each next to a burst to
	// compare with.
	rounds, fewRounds, bursts int

	// How many times the search for the highest rate without loss halves its interval: with many
	// rounds, and with few.
	halvings, fewHalvings int

	// How often an XDP program is run by BPF_PROG_RUN in a round, and in how many rounds.
	runs, runRounds int
}

var (
	fullEffort  = effort{rounds: 6, fewRounds: 3, bursts: 4, halvings: 6, fewHalvings: 4, runs: 15, runRounds: 3}
	quickEffort = effort{rounds: 1, fewRounds: 1, bursts: 2, halvings: 2, fewHalvings: 2, runs: 5, runRounds: 1}
)

// A bench is a run of all measurements.
type bench struct {
	effort
	programs []*program     // that are measured alternately
	chosen   *regexp.Regexp // matches the names of the rows to measure
	disk     string         // the directory for files on a disk
}

// run measures xdpcap, alternately with an old xdpcap unless that is "".
func (b *bench) run(path, old, out string) (err error) {
	if os.Geteuid() != 0 {
		return errors.New("needs root, for network namespaces and XDP: use sudo")
	}
	if runtime.NumCPU() < 2 {
		return errors.New("needs two CPUs: one sends, one runs the tool")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	var text, before bytes.Buffer
	if err := b.addProgram(path, io.MultiWriter(os.Stdout, &text)); err != nil {
		return err
	}
	if old != "" {
		if err := b.addProgram(old, &before); err != nil {
			return err
		}
	}
	timed, cancel := context.WithTimeout(ctx, time.Duration(len(b.programs))*timeLimit)
	defer cancel()
	parts := []func(testnet.TB){b.measurePrograms, b.measureDrains, b.measureStalls, b.measureTwoCPUs, b.measureTCP, b.measureFiles}
	for _, size := range []int{shortSize, longSize, smallSize, middleSize, jumboSize} { // the most important ones first
		parts = append(parts, b.measureFrames(size))
	}
	for _, part := range parts {
		if err := testnet.Try(timed, part); err != nil && ctx.Err() == nil {
			b.each(nil, func(r *results) { r.skip("", err) })
		}
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
	}
	if old == "" {
		b.programs[0].printPromises(os.Stdout, nil)
	} else {
		b.programs[0].printPromises(os.Stdout, &b.programs[1].results)
		if out != "" {
			err = os.WriteFile(out+".before", before.Bytes(), 0o644)
		}
	}
	if out != "" { // an owner that is not root stays the owner
		err = errors.Join(err, os.WriteFile(out, text.Bytes(), 0o644))
	}
	return err
}

// each calls f with the results of a program, or with those of all programs if p is nil:
// measurements without xdpcap are in all of them.
func (b *bench) each(p *program, f func(*results)) {
	for _, other := range b.programs {
		if p == nil || p == other {
			f(&other.results)
		}
	}
}
