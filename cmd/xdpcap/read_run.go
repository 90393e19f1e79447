package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/outfile"
	"github.com/xdpcap/xdpcap/internal/pcapng"
	"github.com/xdpcap/xdpcap/internal/privilege"
)

// A readRun is one reading from its flags to its end.
type readRun struct {
	o       *readOptions
	match   *matcher // nil = all packets
	inputs  *readInputs
	file    *capture.File     // that -w names; nil = none
	stats   *readStats        // nil without --stats
	passed  map[uint16]uint64 // packets by link type that no filter can be applied to
	noticed []string
	memory  uint64 // bytes that were available before the sandbox
	decodes []*decoded
}

// run reads until the end, the limit or a signal. What was read before an error of a file is
// printed and written all the same.
func (r *readRun) run(ctx context.Context) error {
	defer r.inputs.close()
	if err := r.inputs.open(r.o.files); err != nil {
		return unlessEnded(ctx, err)
	}
	if err := r.openFile(); err != nil {
		return err
	}
	r.memory = machine.AvailableMemory().Bytes
	if err := r.enterSandbox(); err != nil {
		return err
	}
	in, err := capture.NewFileInput(r.inputs.files, r.options())
	if err != nil || ctx.Err() != nil {
		return r.leaveEmpty(ctx, unlessEnded(ctx, err))
	}
	defer in.Close()
	outputs, err := r.outputs(in)
	if err == nil {
		_, err = capture.Run(ctx, in, outputs...)
	}
	for _, notice := range r.notices() {
		say(stderr, "%s", notice)
	}
	return lasting(err)
}

// unlessEnded leaves out the error that a signal came while an input had not said what it is.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// options are those for reading.
func (r *readRun) options() capture.FileInputOptions {
	o := capture.FileInputOptions{Count: r.o.count, Memory: r.memory, Notice: func(err error) {
		if !errors.Is(err, unix.EPIPE) {
			r.noticed = append(r.noticed, err.Error())
		}
	}}
	if r.match != nil {
		o.Match = r.matches
	}
	if r.o.stats {
		r.stats = newReadStats(r.o.json)
		o.Section = r.stats.drawn.section
	}
	return o
}

// matches tells whether the filter takes a packet.
func (r *readRun) matches(s *capture.Source, p *capture.Packet) bool {
	if s.IsEthernet() {
		direction, _ := s.DirectionOf(p)
		return r.match.takes(p.Data, p.WireLen, direction == capture.Out)
	}
	r.passed[s.LinkType()]++
	return false
}

// openFile opens the file that -w names. Nothing is written to it before there is something to
// write.
func (r *readRun) openFile() (err error) {
	o := r.o
	if o.outputFile() == "" {
		return nil
	}
	options := capture.WriterOptions{Format: o.fileFormat, Compression: o.compression, Application: "xdpcap " + applicationVersion()}
	if isStdout(o.write) {
		r.file, err = openOutput(o.write, nil, false, options)
	} else {
		err = o.sandbox.opener().Open(o.write, func(trust outfile.Trust) error {
			options.Owners, options.NoLinks = trust.Owners, trust.NoLinks
			return awaitReader(signalled, func() error {
				r.file, err = openOutput(o.write, nil, false, options)
				return err
			})
		})
	}
	if err != nil {
		return err
	}
	if info, err := r.file.Stat(); err == nil && r.inputs.has(info) {
		err := fmt.Errorf("-w %s: it is one of the files that are read: choose another one", o.write)
		return errors.Join(err, r.file.Close())
	}
	all := []destination{r.file}
	written.destinations.Store(&all)
	return nil
}

// enterSandbox gives up privileges before anything is read: whoever made the files may have made
// them to harm what reads them.
func (r *readRun) enterSandbox() error {
	box := r.o.sandbox.box
	if box != nil && (r.file != nil || r.o.json || r.o.printsLines()) {
		// To look how much memory packets may wait in, and whether the file is still there.
		box.Work, box.Readable = []privilege.Work{privilege.Files}, kernelFiles
	}
	if r.file == nil {
		return r.o.sandbox.enter()
	}
	return r.o.sandbox.enter(r.file)
}

// leaveEmpty leaves a file that is whole where no input has come, or none that can be read: this
// process may not remove it any more. One that was there before stays as it was.
func (r *readRun) leaveEmpty(ctx context.Context, err error) error {
	switch {
	case r.file == nil:
	case err == nil || r.file.IsNew():
		none, failed := capture.NewFileInput(nil, capture.FileInputOptions{})
		if failed == nil {
			_, failed = capture.Run(context.WithoutCancel(ctx), none, r.file)
		}
		return errors.Join(err, lasting(failed))
	default:
		r.file.Close()
	}
	return err
}

// outputs are where the packets go.
func (r *readRun) outputs(in *capture.FileInput) (all []capture.Output, err error) {
	o := r.o
	if r.file != nil && o.fileFormat == capture.JSON {
		all = append(all, r.decode(r.file))
	} else if r.file != nil {
		all = append(all, r.file)
	}
	switch {
	case o.stats:
		r.stats.input = in
		all = append(all, r.decode(printed{r.stats}))
	case o.json || o.printsLines():
		options := capture.WriterOptions{Format: capture.JSON, Name: stdoutName}
		if o.json {
			options.MoreJSON = newReadObjects(in, o.printing.format(false), len(o.files) > 1).append
		}
		lines, err := capture.NewFile(os.Stdout, options)
		if err != nil {
			return nil, err
		}
		if o.json { // which has each packet's link type
			return append(all, printed{lines}), nil
		}
		all = append(all, r.decode(printed{lines}))
	case o.write == "" || o.print:
		all = append(all, r.decode(printed{newPrinter(stdout{}, checkStdout, o.printing.format(colored(os.Stdout)))}))
	}
	return all, nil
}

// decode lets the packets be counted that an output does not decode.
func (r *readRun) decode(out capture.Output) capture.Output {
	d := &decoded{Output: out}
	r.decodes = append(r.decodes, d)
	return d
}

// notices are what should be known of the reading besides its result.
func (r *readRun) notices() (all []string) {
	for _, typ := range slices.Sorted(maps.Keys(r.passed)) {
		all = append(all, fmt.Sprintf("passed over %s of %s: filters are for Ethernet", packets(r.passed[typ]), pcapng.LinkTypeName(typ)))
	}
	all = append(all, r.noticed...)
	for _, d := range r.decodes {
		all = append(all, d.notices()...)
	}
	return all
}

// lasting lets the error of a closed pipe be said: what goes through it is a file, which is not
// whole then.
func lasting(err error) error {
	if errors.Is(err, unix.EPIPE) {
		return errors.New(err.Error())
	}
	return err
}
