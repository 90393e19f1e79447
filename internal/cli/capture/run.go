package capture

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/capture/file"
	"github.com/xdpcap/xdpcap/capture/recorder"
	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/cli/outputs"
	"github.com/xdpcap/xdpcap/internal/metrics"
	"github.com/xdpcap/xdpcap/internal/outfile"
	"github.com/xdpcap/xdpcap/internal/privilege"
)

// Run runs the capture, from its flags to its closing lines or object. If mistake is not nil, the
// flags were wrong, and it ends at once with this error.
func Run(o *Options, cmd *cobra.Command, mistake error) (err error) {
	r := &captureRun{o: o, text: o.Process.Stderr, notices: newNotices()}
	r.Destinations = outputs.Destinations{Flags: &o.Options, Writer: r.writer, Notice: r.notices.add}
	if err := o.json.conflict(o); err != nil {
		return errors.Join(mistake, err)
	}
	if o.json.given && o.json.descriptor() == unix.Stderr {
		r.text = io.Discard
	}
	if o.extcap.Captures {
		r.text, r.losses = io.Discard, o.Process.Stderr
	}
	if err = mistake; err == nil {
		err = r.run(cmd)
	}
	if o.json.given && !r.opening {
		// The flags that choose the user may be wrong, so the file is opened with the current
		// rights.
		err = errors.Join(err, r.openObjects(o.Sandbox.Opener().OpenDirect))
	}
	if r.objects == nil {
		return err
	}
	if faulty := new(filter.Error); errors.As(err, &faulty) {
		err = o.json.explain(o.filter.Words, err)
	}
	if failed := r.printSummary(r.accounts, err); failed != nil {
		return errors.Join(err, failed)
	}
	return err
}

// A captureRun is one capture from its flags to its closing lines or object.
type captureRun struct {
	o       *Options
	text    io.Writer      // for messages: stderr, or io.Discard if stderr has the objects of --json
	losses  io.Writer      // for the notice of a loss; nil = text
	objects *frame.Console // for the objects of --json; nil without --json, and before it is open
	opening bool           // openObjects was called

	exporter *metrics.Exporter // nil without --listen
	session  *capture.Session  // nil until the capture has begun
	started  time.Time
	recorder *recorder.Recorder // writes files instead of -w; nil without --ring
	accounts []capture.Accounts // of the outputs, at the end
	predecessors
	outputs.Destinations
	printed *outputs.Printed // nil where no packets are printed
	notices *notices

	companions companions
	counted    companionReports // the counters at the end, or at the last SIGUSR1
}

// run runs the capture. If it could begin, it sets the accounts.
func (r *captureRun) run(cmd *cobra.Command) (err error) {
	if err := r.o.readFilter(cmd); err != nil {
		return err
	}
	if err := r.o.check(cmd.Flags()); err != nil {
		return err
	}
	if err := r.o.ReadKey(); err != nil {
		return err
	}
	if err := r.plan(); err != nil {
		return err
	}
	g := frame.Guard{Interfaces: r.o.interfaces, Yes: r.o.yes}
	if r.o.session.Sink {
		g.Flag = "--sink"
	}
	ctx, err := r.o.Process.Begin(g)
	if err != nil {
		return err
	}
	r.companions = companions{options: &r.o.companions, exits: make(map[string]capture.Companions)}
	defer r.companions.close() // runs after everything that reads them
	if r.exporter, err = metrics.Listen(r.o.listen); err != nil {
		return fmt.Errorf("--listen %s: %w", r.o.listen, err)
	}
	defer r.exporter.Close()
	defer r.closeOutputs()
	opening, cancel := frame.ForDuration(ctx, r.o.Duration) // a FIFO may never get a reader
	err = r.openOutputs(opening)
	if cancel(); err != nil {
		return err
	}
	if r.prints() {
		if err := r.openPrinter(); err != nil {
			return err
		}
		r.o.json.explainLines(r.o)
	}
	if r.o.Rotate.PrintFiles {
		if err := frame.CheckNotClosed("names", ">/dev/null"); err != nil {
			return fmt.Errorf("--print-files: %w", err)
		}
	}
	if r.recorder != nil {
		defer r.triggerBySignal()()
	}
	options := r.o.sessionOptions()
	options.Forgotten = r.forget
	options.Notice = func(err error) {
		if !errors.Is(err, outputs.ErrReaderGone) {
			r.notices.add(err)
		}
	}
	if !r.o.companions.isNone() {
		options.Companions = r.companions.join
	}
	r.namePods(&options)
	if r.session, err = capture.Open(options); err != nil {
		iface := ""
		if len(r.o.interfaces) == 1 {
			iface = r.o.interfaces[0]
		}
		return frame.Untraced(r.o.explainNoProgram(err, cmd.Flags()), iface, r.o.withoutTracing())
	}
	defer r.session.Close()
	r.started = time.Now()
	r.companions.began = r.started
	if err := r.enterSandbox(); err != nil {
		return err
	}
	defer r.reloadOnHangup()()
	if err := r.o.json.begin(); err != nil {
		return err
	}
	own := metrics.NewCollector(r.read, Metrics(r.session.Options().Transport, r.started))
	r.exporter.Serve(metrics.NewRegistry(append(r.companions.collectors(), own)...))
	return r.follow(ctx)
}

// laterFile returns the name of files that are created in the sandbox: recordings, or else as in
// outputs.Options.LaterFile.
func (o *Options) laterFile() string {
	if o.recorder.size.Bytes > 0 {
		return o.Rotate.Lasting(o.Write)
	}
	return o.Options.LaterFile()
}

// plan chooses the user that the capture becomes, and opens the file of --json as that user.
func (r *captureRun) plan() error {
	files := append(r.o.MadeFiles(), r.o.json.path())
	if err := r.o.Sandbox.Plan(r.o.laterFile(), files...); err != nil || !r.o.json.given {
		return err
	}
	return r.openObjects(r.o.Sandbox.Opener().Open)
}

// openObjects opens the file of --json, with one of the functions of outfile.Opener.
func (r *captureRun) openObjects(by func(path string, open func(outfile.Trust) error) error) (err error) {
	r.opening = true
	r.objects, err = r.o.json.open(r.o.Process, by)
	return err
}

// enterSandbox drops privileges. It is called after everything is attached and open, and before the
// first packet is parsed.
func (r *captureRun) enterSandbox() error {
	if r.session.HasSetCards() {
		r.o.Sandbox.KeepNetAdmin("put back how the card stamps packets")
	}
	if r.session.HasSwitchedOff() {
		r.o.Sandbox.KeepNetAdmin("switch on again what attaching has switched off")
	}
	made := append(r.Givers(), &r.o.json)
	perf := r.session.Options().Transport.OpensPerf()
	for _, src := range r.session.Sources() {
		if src.NetAdmin {
			r.o.Sandbox.KeepNetAdmin("remove the filter of clsact")
		}
		perf = perf || src.InFragments()
	}
	if box := r.o.Sandbox.Box(); box != nil {
		r.o.sandboxNeeds(box)
		if perf {
			box.Work = append(box.Work, privilege.Tracing) // the ring of a CPU that comes online
		}
	}
	if r.o.attachesLater() {
		r.o.Sandbox.KeepAttaching()
	}
	return r.o.Sandbox.Enter(r.notices.add, made...)
}

// follow captures until the session ends, and prints the closing lines.
func (r *captureRun) follow(ctx context.Context) (err error) {
	reporter := r.newReporter()
	reporter.start()
	ctx, cancel := frame.ForDuration(ctx, r.o.Duration)
	defer cancel()
	if r.usesOneCPU() {
		runtime.GOMAXPROCS(1)
	}
	all, err := capture.Run(ctx, r.o.Anonymized(r.session), r.allOutputs()...)
	reporter.end() // the files are whole before it waits for a reader of stderr
	r.accounts = all
	counting := r.readCompanions()
	if r.text == r.o.Process.Stderr {
		frame.NewTerminal(r.o.Process.Stderr.File()).ClearLine(r.text)
	}
	if r.objects == nil {
		r.writeAccounts(r.accounts, "captured")
	}
	if r.Finished != nil {
		r.Finished.Wait(reporter.note)
	}
	if n := r.notices.left(); n > 0 {
		frame.Say(r.text, "%d more notices were omitted, because there were many like them", n)
	}
	return errors.Join(err, counting)
}

// usesOneCPU reports whether the capture only reads the rings and writes one file without
// compression. Both together need less time on one CPU, whose cache still has the packets that were
// read: with several CPUs, Go would wake another thread for each chunk. While a write takes long,
// Go's runtime continues with the reading in another thread. It cannot do that while it starts a
// command for a finished file, so a capture with -z uses all CPUs.
func (r *captureRun) usesOneCPU() bool {
	if len(r.o.Targets) != 1 || len(r.Outputs) != 1 || r.prints() || r.recorder != nil || r.exporter != nil {
		return false
	}
	if r.Finished.HasCommand() || !r.o.companions.isNone() || r.o.attachesLater() {
		return false
	}
	t := &r.o.Targets[0]
	return t.URL == nil && t.Compression == file.NoCompression
}

func (r *captureRun) newReporter() *reporter {
	rep := &reporter{captureRun: r, clients: newNotices()}
	if r.showsProgress() {
		rep.bar = newBar(r.o.Process.Stderr, r.started)
	}
	if r.Finished != nil {
		r.Finished.Around = rep.bar.around
	}
	return rep
}

// sandboxNeeds adds the rights that the capture and its outputs need in the sandbox.
func (c *Options) sandboxNeeds(box *privilege.Sandbox) {
	box.Work, box.Readable = []privilege.Work{privilege.BPF}, slices.Concat(frame.KernelFiles, c.directoriesAtHangup())
	if c.listen != "" {
		box.Work = append(box.Work, privilege.Accepting)
	}
	c.OutputNeeds(box)
}
