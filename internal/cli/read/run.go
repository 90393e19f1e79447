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
)

// A readRun is one reading from its flags to its end.
type readRun struct {
	o       *Options
	match   *filters.Matchers // nil = all packets
	inputs  *readInputs
	stats   *statistics        // nil without --stats
	whole   *filters.Fragments // nil without --fragments
	passed  map[uint16]uint64  // packets to which the filter cannot be applied, by link type
	noticed []string
	telling sync.Mutex
	memory  uint64     // bytes of memory that were available before the sandbox
	decoded *decoded   // nil = no output decodes packets
	apart   *suspicion // nil where clocks are corrected, or nobody looks at lines
	outputs.Destinations
}

// run reads until the end, the limit or a signal. Packets before a file's error are still printed
// and written.
func (r *readRun) run(ctx context.Context) error {
	defer r.inputs.close()
	r.inputs.notice = r.tell
	if r.o.gathers {
		r.inputs.hostOf = r.o.hostOf
		r.o.clocks.align = len(r.o.clocks.shifts) == 0 && len(r.o.files) > 1
	}
	if err := r.inputs.open(r.o.files); err != nil {
		return unlessEnded(ctx, err)
	}
	ctx, cancel := frame.ForDuration(ctx, r.o.Duration)
	defer cancel()
	r.Destinations = outputs.Destinations{Flags: &r.o.Options, Writer: r.writer, Notice: r.tell}
	defer r.o.page.close()
	err := r.openOutputs(ctx)
	if err == nil {
		err = r.o.page.open(r.o.Process, r.o.Sandbox.Opener(), r.inputs.has)
	}
	if err != nil {
		return errors.Join(err, r.Destinations.Close())
	}
	r.memory = machine.AvailableMemory().Bytes
	if err := r.enterSandbox(); err != nil {
		return err
	}
	files := r.inputs.files
	if r.o.clocks.isGiven() {
		if err := r.o.clocks.correct(ctx, r.o.Process, files, r.memory); err != nil {
			return r.leaveEmpty(ctx, err)
		}
	} else if r.o.choice.period.isGiven() {
		files = r.inputs.inPeriod(&r.o.choice.period)
		sayPeriod(r.o.Process, files, len(r.inputs.files))
	}
	in, err := file.NewInput(files, r.options())
	if err != nil || ctx.Err() != nil {
		return r.leaveEmpty(ctx, unlessEnded(ctx, err))
	}
	defer in.Close()
	r.o.choice.reasonName = in.Description().ReasonName
	var from capture.Input = in
	if r.o.replay != nil && !r.o.replay.measure {
		from = r.o.replay.through(in)
	}
	from = r.o.Anonymized(from)
	outputs, err := r.allOutputs(in, from)
	if err == nil {
		_, err = capture.Run(ctx, from, outputs...)
	}
	if r.Finished != nil {
		r.Finished.Wait(r.tell)
	}
	for _, notice := range r.noticed {
		frame.Say(r.o.Process.Stderr, "%s", notice)
	}
	if r.apart != nil {
		r.apart.sayApart(r.o.Process)
	}
	if missed := r.o.choice.period.missed(); missed != "" {
		frame.Say(r.o.Process.Stderr, "%s", missed)
	}
	if r.whole != nil && r.whole.Undecided > 0 {
		frame.Say(r.o.Process.Stderr, "omitted %s: fragments whose first one is not in the files", frame.Packets(r.whole.Undecided))
	}
	switch {
	case r.o.replay == nil:
	case r.o.replay.measure && err == nil:
		err = r.o.replay.printMeasured(ctx, r.o)
	default:
		err = errors.Join(err, r.o.replay.print(r.o))
	}
	return errors.Join(append([]error{lasting(err), r.o.choice.checkFound(in.Sources())}, r.unknown()...)...)
}

// tell prints a notice at once. Any goroutine may call it.
func (r *readRun) tell(err error) {
	r.telling.Lock()
	defer r.telling.Unlock()
	frame.Say(r.o.Process.Stderr, "%s", frame.WithRemedy(err.Error(), err))
}

// unlessEnded omits the error that a signal came before the format of an input was known.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// options are the options for reading.
func (r *readRun) options() file.InputOptions {
	o := file.InputOptions{Skip: r.o.skip, Count: r.o.packetsRead(), Memory: r.memory, Match: r.matches, Notice: func(err error) {
		if !errors.Is(err, outputs.ErrReaderGone) && !errors.Is(err, capture.ErrEnough) {
			r.noticed = append(r.noticed, err.Error())
		}
	}}
	if r.o.stats || r.o.page.path != "" {
		r.stats = r.o.newStatistics()
		o.Section = r.stats.Section
	}
	return o
}

// matches says whether a packet is chosen, and the filter takes it.
func (r *readRun) matches(s *capture.Source, p *capture.Packet) bool {
	r.o.clocks.follow(s, p)
	if r.apart != nil {
		r.apart.add(s, p)
	}
	if !r.o.choice.takes(s, p) {
		return false
	}
	if r.match == nil {
		return true
	}
	match, err := r.match.Of(s.LinkType(), s.Netmask)
	if err != nil {
		r.passed[s.LinkType()]++
		return false
	}
	direction, _ := s.DirectionOf(p)
	takes := match.Takes(p.Data, p.WireLen, direction == capture.Out)
	if r.whole != nil {
		takes = r.whole.Takes(headers.LinkToDecode(s.LinkType()), p.Data, takes)
	}
	return takes
}

// writer returns the options for writing what -w names.
func (r *readRun) writer(t *outputs.Target) file.Options {
	return file.Options{
		Format: t.Format, Compression: t.Compression, Microseconds: r.o.printing.Microseconds(), Application: "xdpcap " + frame.Version(),
		Refuse: func(file os.FileInfo) error {
			if r.inputs.has(file) {
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

// enterSandbox gives up privileges before anything is read, because a file may be made to attack
// its reader.
func (r *readRun) enterSandbox() error {
	if r.o.replay != nil && r.o.replay.measure {
		return nil // it needs the CPU's counters, and a CPU for itself
	}
	if box := r.o.Sandbox.Box(); box != nil && (len(r.Opened) > 0 || r.o.json || r.o.lines || r.o.page.path != "") {
		r.o.OutputNeeds(box)
	}
	return r.o.Sandbox.Enter(r.tell, append(r.Givers(), &r.o.page)...)
}

// leaveEmpty makes the output files whole if no input has come, or none that can be read, because
// this process can no longer remove them. A file that existed before stays unchanged.
func (r *readRun) leaveEmpty(ctx context.Context, err error) error {
	var files []capture.Output
	for _, d := range r.Opened {
		if f, ok := d.(*file.File); ok && (err == nil || f.IsNew()) {
			files = append(files, f)
		} else {
			d.Close()
		}
	}
	none, failed := file.NewInput(nil, file.InputOptions{Memory: r.memory})
	if failed == nil {
		_, failed = capture.Run(context.WithoutCancel(ctx), none, files...)
	}
	return errors.Join(err, lasting(failed))
}

// allOutputs are all outputs for packets: first those that -w names, in that order. They get the
// packets of from: those of the files, or anonymized ones.
func (r *readRun) allOutputs(in *file.Input, from capture.Input) (all []capture.Output, err error) {
	o := r.o
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
	switch {
	case o.stats:
	case o.follow && o.page.path == "":
		out := &outputs.Printed{Output: newFollowing(o, in)}
		if o.json { // as below
			return append(all, out), nil
		}
		all = append(all, r.decode(out))
	case (o.json || o.lines) && o.replay == nil:
		options := file.Options{Format: file.JSON, Name: frame.StdoutName}
		if o.lines {
			options.Format, _ = o.Text()
		}
		if o.json {
			options.MoreJSON = lines.NewObjects(from, o.printing.Format(false), len(o.files) > 1).Append
		}
		lines, err := file.New(o.Process.Stdout.File, options)
		if err != nil {
			return nil, err
		}
		if o.json { // its objects have each packet's link type
			return append(all, &outputs.Printed{Output: lines}), nil
		}
		all = append(all, r.decode(&outputs.Printed{Output: lines}))
	case o.replay != nil && o.replay.measure:
		all = append(all, &o.replay.sample)
	case len(r.Outputs) == 0 && o.replay == nil && r.stats == nil || o.Print:
		if len(o.files) > 1 && len(o.files) <= mostSuspects && !o.clocks.isGiven() {
			r.apart = &suspicion{most: mostLookedAt}
		}
		out := o.Process.Stdout
		printer := lines.NewPrinter(out, frame.StdoutName, out.Check, o.printing.Format(frame.Colored("auto", out.File)))
		all = append(all, r.decode(&outputs.Printed{Output: printer}))
	}
	return all, nil
}

// isText says whether a -w is a file with a line of text for each packet.
func (r *readRun) isText(name string) bool {
	return slices.ContainsFunc(r.o.Targets, func(t outputs.Target) bool { return t.Name == name && t.URL == nil && t.Format.IsText() })
}

// decode wraps an output to count the packets that it cannot decode. All outputs get the same
// packets, so only the first one that decodes is wrapped.
func (r *readRun) decode(out capture.Output) capture.Output {
	if r.decoded != nil {
		return out
	}
	r.decoded = &decoded{Output: out}
	return r.decoded
}

// unknown has an error for packets that the filter or an output could not decode, because the
// printed text does not show them.
func (r *readRun) unknown() (all []error) {
	for _, typ := range slices.Sorted(maps.Keys(r.passed)) {
		_, err := r.match.Of(typ, nil)
		all = append(all, fmt.Errorf("skipped %s: %w", frame.Packets(r.passed[typ]), err))
	}
	if r.decoded != nil {
		all = append(all, r.decoded.unknown()...)
	}
	return all
}

// lasting keeps the error of a closed pipe, because the file that goes through it is then not
// whole.
func lasting(err error) error {
	if errors.Is(err, unix.EPIPE) {
		return errors.New(err.Error())
	}
	return err
}
