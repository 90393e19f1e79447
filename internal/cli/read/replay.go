package read

import (
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/spf13/cobra"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/privilege"
	"github.com/xdpcap/xdpcap/internal/replay"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// replayOptions are the flags that replay has in addition to those of read.
type replayOptions struct {
	program  replay.Recipe // --program, --pins, --map and --set
	against  string        // another program; "" = the verdicts in the capture
	ingress  string        // interface; "" = loopback
	expect   string        // file; "" = none
	yes      bool          // the program may change maps that others use
	sent     bool          // run what the host of the capture sent, not what it received
	measure  bool          // measure the cost instead of comparing verdicts
	duration time.Duration // of --measure, in CPU time

	sample  replay.Sample // packets for --measure
	options replay.Options
	input   *replay.Input // nil before the files are open
}

const replayHelp = `replay runs an XDP program on the packets of capture files: what would my new program do with
yesterday's traffic? The program is attached nowhere, no packet is sent, whatever its verdict, and
nobody's traffic is touched.

--program is an object file, as clang -target bpf makes it, the name or id of a loaded program, or
the path where one is pinned. A program of an object file begins with empty maps. --pins takes the
maps that are pinned in a directory instead, --map fills one from what bpftool -j map dump prints,
and --set sets a global variable. With maps that others use, what the program changes in them is
seen by others: this is refused without --yes.

The table has how many packets got each verdict, how many of them the program changed, and how long
it ran for a packet, in ns above a program that does nothing. Below it is what differs: from the verdicts
that the capture has, with --rx-capture entry,exit, or from another program, --against. --expect
compares with a file: on each line a filter, a comma and a verdict, such as

  udp port 53, pass

and the exit status is 1 if a packet that matches got another verdict, or none matches. -w writes
the packets as the program left them, with their verdicts.

--measure tells more precisely what a packet costs, by thousands of runs on a few packets:

  ONCE      a single run of each packet in turn: the cost of a packet that comes alone
  REPEATED  one of many runs of a packet in a row: the cost at high rates
  CYCLES    cycles per packet, by the CPU's own counters; a dash where it has none
  NATIVE    instructions of the CPU per packet, likewise

The program runs on the packets that the host of the capture received or, with --sent, on those that
it sent; never on those that it threw away. Some things are not as they were then: the time, what
other CPUs do meanwhile, and what earlier packets have left in maps. A packet that is redirected goes
nowhere, and the report does not tell where it would go. The kernel cannot run programs of devmap or
cpumap entries in this way.`

const replayExamples = `  xdpcap replay --program new.o yesterday.pcapng
                                             its verdicts, and what differs from those of then
  xdpcap replay --program new.o --against lb --yes yesterday.pcapng
                                             what differs from the program that is loaded now
  xdpcap replay --program new.o --expect rules.txt test.pcap
                                             for tests: its exit status
  xdpcap replay --program new.o -w after.pcapng yesterday.pcapng 'tcp port 443'
                                             the packets as the program leaves them
  xdpcap replay --program lb --measure --yes out.pcapng
                                             what the loaded program costs, on these packets
  xdpcap replay --program new.o --map backends=dump.json --set debug=1 yesterday.pcapng`

// NewReplay returns the command replay.
func NewReplay(p *frame.Process) *cobra.Command {
	o := Options{replay: new(replayOptions)}
	cmd := o.command(p, splitArguments)
	cmd.Use, cmd.Short, cmd.Long, cmd.Example = "replay --program PROGRAM [flags] FILE... [filter]", "Run an XDP program on the packets of capture files", replayHelp, replayExamples
	cmd.SuggestFor = []string{"bench", "run", "test"}
	o.addReplayFlags(cmd)
	o.choice.replays = true
	return cmd
}

func (o *Options) addReplayFlags(cmd *cobra.Command) {
	r := o.replay
	o.filter.Netmask = net.IPMask{0, 0, 0, 0} // as in read
	frame.AddFlags(cmd, "Which program", []frame.Flag{
		{Name: "program", Value: &r.program.Name, Settings: frame.CommandLineOnly, Complete: o.Process.CompleteProgram,
			Help: "run this XDP `program`: FILE.o, FILE.o:FUNCTION, the NAME or id of a loaded one, or the path where one is pinned"},
		{Name: "against", Value: &r.against, Settings: frame.CommandLineOnly, Complete: o.Process.CompleteProgram,
			Help: "compare with what this `program` does with the same packets, instead of the verdicts in the capture"},
		{Name: "pins", Value: &r.program.Pins, Settings: frame.CommandLineOnly, Help: "use the maps that are pinned in this `directory`, by their names"},
		{Name: "map", Value: (*frame.List)(&r.program.Maps), Settings: frame.CommandLineOnly, Help: "fill maps first: `NAME=FILE`, where bpftool -j map dump name NAME > FILE"},
		{Name: "set", Value: (*frame.List)(&r.program.Constants), Settings: frame.CommandLineOnly, Help: "set global variables, which must be numbers: `NAME=VALUE`"},
		{Name: "ingress", Value: &r.ingress, Settings: frame.CommandLineOnly,
			Help: "packets come from this `interface`, and from the queue that the capture has; without it, from queue 0 of the loopback interface"},
		{Name: "sent", Value: &r.sent, Settings: frame.CommandLineOnly,
			Help: "run what the host of the capture sent, instead of what it received: for a capture at the sender"},
		{Name: "measure", Value: &r.measure, Settings: frame.CommandLineOnly,
			Help: fmt.Sprintf("measure what the program costs, on the first %d packets of the files or, without a file, on packets of its own", replay.MaxSample)},
		{Name: "duration", Value: &r.duration, Default: "2s", Settings: frame.CommandLineOnly, Help: "measure for about this `time`, in CPU time"},
		{Name: "yes", Value: &r.yes, Settings: frame.CommandLineOnly, Help: "allow the program to change maps that others use"},
	}...)
	frame.AddFlags(cmd, "Which packets", o.choiceFlags()...)
	frame.AddFlags(cmd, "Output", frame.Except(frame.CommandLineOnly, append(o.printedFileFlags(), []frame.Flag{
		{Name: "json", Value: &o.json, Help: "print the report as JSON: one object"},
		{Name: "expect", Value: &r.expect, Settings: frame.CommandLineOnly, Help: "compare verdicts with those in this `file`, and fail if they are not as expected"},
	}...))...)
	frame.AddFlags(cmd, "Lines", o.printing.Flags()...)
	frame.AddFlags(cmd, "Privileges", o.Sandbox.Flags()...)
}

// check finds mistakes in the flags.
func (r *replayOptions) check(o *Options) error {
	switch {
	case r.program.Name == "":
		return errors.New("--program is missing: which program? FILE.o, or the NAME or id of a loaded one")
	case len(o.files) == 0 && !r.measure:
		return errors.New("which packets? xdpcap replay --program " + r.program.Name + " FILE; - is standard input")
	}
	if err := r.checkMeasure(o); err != nil {
		return err
	}
	return frame.CheckPrints()
}

// open loads the programs, and reads the expectations.
func (r *replayOptions) open(o *Options) (err error) {
	if err := frame.ForOwnRights("--program"); err != nil {
		return err
	}
	if err := r.readExpectations(o); err != nil {
		return err
	}
	if r.ingress != "" {
		ifi, err := xdp.InterfaceByName(r.ingress)
		if err != nil {
			return fmt.Errorf("--ingress: %w", err)
		}
		r.options.Ingress = ifi.Index
	}
	if r.sent {
		r.options.Direction, r.sample.Direction = capture.Out, capture.Out
	}
	r.program.Outlets = len(o.Writes) > 0 || o.Print
	if r.options.Program, err = r.load("--program", r.program); err == nil && r.against != "" {
		r.options.Against, err = r.load("--against", replay.Recipe{Name: r.against})
	}
	if box := o.Sandbox.Box(); box != nil {
		box.Work = append(box.Work, privilege.BPF)
	}
	return err
}

// readExpectations reads the file of --expect.
func (r *replayOptions) readExpectations(o *Options) error {
	if r.expect == "" {
		return nil
	}
	if err := o.filter.Sets.OnlyFiles(); err != nil {
		return err
	}
	f, err := frame.OpenWaiting(o.Process.UntilSignal(), r.expect)
	if err != nil {
		return fmt.Errorf("--expect: %w", err)
	}
	defer f.Close() // only read
	text, err := io.ReadAll(f)
	if err != nil {
		return fmt.Errorf("--expect: %w", err)
	}
	compiling := o.filter.Compiling()
	compiling.Fragments = false // later fragments are not joined with their first one
	if r.options.Expect, err = replay.ParseExpectations(string(text), r.expect, compiling); err != nil {
		return fmt.Errorf("--expect: %w", err)
	}
	return nil
}

// load loads the program of a flag. It refuses a program whose maps others use, without --yes.
func (r *replayOptions) load(flag string, recipe replay.Recipe) (*replay.Program, error) {
	p, err := recipe.Open()
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", flag, err)
	case p.IsShared && !r.yes:
		p.Close()
		return nil, fmt.Errorf("%s: %v runs on these packets as if they had come in: none is sent, but it changes maps that others use, and "+
			"whoever reads them counts these packets as real; add --yes to do it anyway", flag, p)
	}
	return p, nil
}

func (r *replayOptions) close() {
	for _, p := range []*replay.Program{r.options.Program, r.options.Against} {
		if p != nil {
			p.Close()
		}
	}
}

// print prints the report. It returns an error for each expectation that has failed.
func (r *replayOptions) print(o *Options) error {
	if r.input == nil {
		return nil
	}
	var out io.Writer = o.Process.Stdout
	if o.WritesStdout() {
		out = o.Process.Stderr
	}
	err := printReport(out, newReplayReport(r, r.input.Result()), o.json)
	for _, e := range r.options.Expect.Failed() {
		err = errors.Join(err, fmt.Errorf("--expect %s, %v", r.expect, &e))
	}
	return err
}
