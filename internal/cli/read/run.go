package read

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/capture/file"
	"github.com/xdpcap/xdpcap/internal/cli/filters"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/cli/outputs"
	"github.com/xdpcap/xdpcap/internal/headers"
	"github.com/xdpcap/xdpcap/internal/lines"
	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/replay"
)

// A readRun is a run of the command from the opening of its files to its end.
type readRun struct {
	o          *Options
	match      *filters.Matchers // nil = all packets
	inputs     *readInputs
	stats      *statistics        // nil without --stats and --report
	fragments  *filters.Fragments // nil without --fragments
	unfiltered map[uint16]uint64  // packets to which the filter cannot be applied, by link type
	notices    []string           // of the input, printed at the end
	printing   sync.Mutex         // held by notify
	memory     uint64             // bytes that were available before the sandbox
	decoder    *decoder           // the first output that decodes packets; nil = none does
	copies     *suspicion         // finds files with the same packets at other times; nil = none are sought
	outputs.Destinations
}

// run reads until the end, the limit or a signal. Packets before a file's error are still printed
// and written.
func (r *readRun) run(ctx context.Context) error {
	defer r.inputs.close()
	r.inputs.notice = r.notify
	if r.o.gathers {
		r.inputs.hostOf = r.o.hostOf
		r.o.clocks.align = len(r.o.clocks.shifts) == 0 && len(r.o.files) > 1
	}
	if err := r.inputs.open(r.o.files); err != nil {
		return unlessCanceled(ctx, err)
	}
	ctx, cancel := frame.ForDuration(ctx, r.o.Duration)
	defer cancel()
	r.Destinations = outputs.Destinations{Flags: &r.o.Options, Writer: r.writer, Notice: r.notify}
	defer r.o.page.close()
	err := r.openOutputs(ctx)
	if err == nil {
		err = r.o.page.open(r.o.Process, r.o.Sandbox.Opener(), r.inputs.contains)
	}
	if err == nil {
		r.memory = machine.AvailableMemory().Bytes
		err = r.enterSandbox()
	}
	if err != nil {
		return errors.Join(err, r.Destinations.Close())
	}
	files := r.inputs.files
	if r.o.clocks.isGiven() {
		if err := r.o.clocks.correct(ctx, r.o.Process, files, r.memory); err != nil {
			return r.leaveEmpty(ctx, err)
		}
	} else if r.o.choice.period.isGiven() {
		files = r.inputs.inPeriod(&r.o.choice.period)
		sayChosen(r.o.Process, files, len(r.inputs.files))
	}
	in, err := file.NewInput(files, r.options())
	if err != nil || ctx.Err() != nil {
		return r.leaveEmpty(ctx, unlessCanceled(ctx, err))
	}
	defer in.Close()
	r.o.choice.reasonName = in.Description().ReasonName
	var from capture.Input = in // what the outputs read: in, perhaps replayed and anonymized
	if replayed := r.o.replay; replayed != nil && !replayed.measure {
		replayed.input = replay.NewInput(in, replayed.options)
		from = replayed.input
	}
	from = r.o.Anonymized(from)
	outputs, err := r.allOutputs(in, from)
	if err == nil {
		_, err = capture.Run(ctx, from, outputs...)
	}
	r.finish()
	switch {
	case r.o.replay == nil:
	case r.measures() && err == nil:
		err = r.o.replay.printMeasured(ctx, r.o)
	default:
		err = errors.Join(err, r.o.replay.print(r.o))
	}
	return errors.Join(append([]error{notEPIPE(err), r.o.choice.checkFound(in.Sources())}, r.undecoded()...)...)
}

// measures reports whether the command is replay --measure.
func (r *readRun) measures() bool { return r.o.replay != nil && r.o.replay.measure }

// finish waits for the commands of -z, and prints the messages about the whole reading.
func (r *readRun) finish() {
	if r.Finished != nil {
		r.Finished.Wait(r.notify)
	}
	for _, notice := range r.notices {
		frame.Say(r.o.Process.Stderr, "%s", notice)
	}
	if r.copies != nil {
		r.copies.reportCopies(r.o.Process)
	}
	if missed := r.o.choice.period.missed(); missed != "" {
		frame.Say(r.o.Process.Stderr, "%s", missed)
	}
	if r.fragments != nil && r.fragments.Undecided > 0 {
		frame.Say(r.o.Process.Stderr, "omitted %s: fragments whose first one is not in the files", frame.Packets(r.fragments.Undecided))
	}
}

// notify prints a notice at once. Any goroutine may call it.
func (r *readRun) notify(err error) {
	r.printing.Lock()
	defer r.printing.Unlock()
	frame.Say(r.o.Process.Stderr, "%s", frame.WithRemedy(err.Error(), err))
}

// unlessCanceled omits the error of a signal that came before the format of an input was known.
func unlessCanceled(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// options are the options for reading. It also opens the statistics, which get the comments of each
// section.
func (r *readRun) options() file.InputOptions {
	o := file.InputOptions{Skip: r.o.skip, Count: r.o.readLimit(), Memory: r.memory, Match: r.matches, Notice: func(err error) {
		if !errors.Is(err, outputs.ErrReaderGone) && !errors.Is(err, capture.ErrEnough) {
			r.notices = append(r.notices, err.Error())
		}
	}}
	if r.o.stats || r.o.page.path != "" {
		r.stats = r.o.newStatistics()
		o.Section = r.stats.addSection
	}
	return o
}

// matches reports whether the choice and the filter select a packet. It is called for each packet
// of the files, so it also passes them on to the comparisons of clocks, and counts those to which
// the filter cannot be applied.
func (r *readRun) matches(s *capture.Source, p *capture.Packet) bool {
	r.o.clocks.realign(s, p)
	if r.copies != nil {
		r.copies.add(s, p)
	}
	if !r.o.choice.contains(s, p) {
		return false
	}
	if r.match == nil {
		return true
	}
	match, err := r.match.Of(s.LinkType(), s.Netmask)
	if err != nil {
		r.unfiltered[s.LinkType()]++
		return false
	}
	direction, _ := s.DirectionOf(p)
	matches := match.Takes(p.Data, p.WireLen, direction == capture.Out)
	if r.fragments != nil {
		matches = r.fragments.Takes(headers.LinkToDecode(s.LinkType()), p.Data, matches)
	}
	return matches
}

// writer returns the options for writing a file of -w.
func (r *readRun) writer(t *outputs.Target) file.Options {
	return file.Options{
		Format: t.Format, Compression: t.Compression, Microseconds: r.o.printing.Microseconds(), Application: "xdpcap " + frame.Version(),
		Refuse: func(file os.FileInfo) error {
			if r.inputs.contains(file) {
				return outputs.InputError{Path: t.Name}
			}
			return nil
		},
	}
}

// openOutputs opens the outputs. Nothing is written before the first packet.
func (r *readRun) openOutputs(ctx context.Context) error {
	return r.Open(ctx, r.o.Process.Stderr.File(), func(t *outputs.Target) (bool, error) {
		return t.IsStdout() && r.o.lines, nil // it is printed
	})
}

// enterSandbox gives up privileges before packets are read, because a file may attack its reader.
func (r *readRun) enterSandbox() error {
	if r.measures() {
		return nil // --measure needs the CPU's counters, and a CPU for itself
	}
	writesOutput := len(r.Opened) > 0 || r.o.json || r.o.lines || r.o.page.path != ""
	if box := r.o.Sandbox.Box(); box != nil && writesOutput {
		r.o.OutputNeeds(box)
	}
	return r.o.Sandbox.Enter(r.notify, append(r.Givers(), &r.o.page)...)
}

// leaveEmpty completes the output files without packets if no input can be read, because the
// sandbox cannot remove them. After an error a file that existed before stays unchanged.
func (r *readRun) leaveEmpty(ctx context.Context, err error) error {
	var files []capture.Output
	for _, d := range r.Opened {
		if f, ok := d.(*file.File); ok && (err == nil || f.IsNew()) {
			files = append(files, f)
		} else {
			d.Close()
		}
	}
	noFiles, failed := file.NewInput(nil, file.InputOptions{Memory: r.memory})
	if failed == nil {
		_, failed = capture.Run(context.WithoutCancel(ctx), noFiles, files...)
	}
	return errors.Join(err, notEPIPE(failed))
}

// allOutputs are all outputs for packets: first those of -w, in that order. They get the packets of
// from, which are those of in, perhaps replayed and anonymized.
func (r *readRun) allOutputs(in *file.Input, from capture.Input) (all []capture.Output, err error) {
	for _, out := range r.Outputs {
		for _, text := range out.Invitation() {
			frame.Say(r.o.Process.Stderr, "%s", text)
		}
		if r.isText(out.Name) {
			all = append(all, r.decode(out.Live))
		} else {
			all = append(all, out.Live)
		}
	}
	if r.stats != nil {
		r.stats.Input = in
		all = append(all, r.decode(&outputs.Printed{Output: r.stats}))
	}
	if r.measures() {
		return append(all, &r.o.replay.sample), nil
	}
	printed, err := r.printedOutput(in, from)
	switch {
	case err != nil || printed == nil:
		return all, err
	case r.o.json && r.o.replay == nil: // the objects have each packet's link type
		return append(all, &outputs.Printed{Output: printed}), nil
	}
	return append(all, r.decode(&outputs.Printed{Output: printed})), nil
}

// printedOutput is the output that prints packets to standard output; nil = there is none.
func (r *readRun) printedOutput(in *file.Input, from capture.Input) (capture.Output, error) {
	o := r.o
	hasOtherOutput := len(r.Outputs) > 0 || o.replay != nil || r.stats != nil
	mayCompare := len(o.files) > 1 && len(o.files) <= maxComparedFiles && !o.clocks.isGiven()
	switch {
	case o.stats:
		return nil, nil
	case o.follow && o.page.path == "":
		return newFollowing(o, in), nil
	case (o.json || o.lines) && o.replay == nil:
		options := file.Options{Format: file.JSON, Name: frame.StdoutName}
		if o.lines {
			options.Format, _ = o.Text()
		}
		if o.json {
			options.MoreJSON = lines.NewObjects(from, o.printing.Format(false), len(o.files) > 1).Append
		}
		return file.New(o.Process.Stdout.File, options)
	case o.Print || !hasOtherOutput:
		if mayCompare {
			r.copies = &suspicion{limit: maxComparedPackets}
		}
		out := o.Process.Stdout
		return lines.NewPrinter(out, frame.StdoutName, out.Check, o.printing.Format(frame.Colored("auto", out.File))), nil
	}
	return nil, nil
}

// isText reports whether a -w is a file with a line of text for each packet.
func (r *readRun) isText(name string) bool {
	return slices.ContainsFunc(r.o.Targets, func(t outputs.Target) bool { return t.Name == name && t.URL == nil && t.Format.IsText() })
}

// decode wraps an output to count the packets that it cannot decode. All outputs get the same
// packets, so only the first one that decodes is wrapped: further calls return out as it is.
func (r *readRun) decode(out capture.Output) capture.Output {
	if r.decoder != nil {
		return out
	}
	r.decoder = &decoder{Output: out}
	return r.decoder
}

// undecoded has errors about packets that the filter or an output could not decode, because the
// printed text does not show them.
func (r *readRun) undecoded() (all []error) {
	for _, typ := range slices.Sorted(maps.Keys(r.unfiltered)) {
		_, err := r.match.Of(typ, nil)
		all = append(all, fmt.Errorf("skipped %s: %w", frame.Packets(r.unfiltered[typ]), err))
	}
	if r.decoder != nil {
		all = append(all, r.decoder.errors()...)
	}
	return all
}

// notEPIPE hides that an error is EPIPE, which main would ignore: the file that goes through a
// closed pipe is not whole.
func notEPIPE(err error) error {
	if errors.Is(err, unix.EPIPE) {
		return errors.New(err.Error())
	}
	return err
}
