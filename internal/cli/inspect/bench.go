package inspect

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/bench"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/escape"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// benchOptions are the flags of the command bench.
type benchOptions struct {
	process  *frame.Process
	program  string
	packets  string
	yes      bool
	duration time.Duration
	json     bool
}

const benchHelp = `bench measures an XDP program that is already loaded, on the packets of a capture or on packets of
its own.

  ONCE      a single run of each packet in turn: the cost of a packet that comes alone
  REPEATED  one of many runs of a packet in a row: the cost at high rates
  CYCLES    cycles per packet, by the CPU's own counters; a dash where it has none
  NATIVE    instructions of the CPU per packet, likewise

All are more than those of a program that does nothing; ONCE and REPEATED are in ns. Nothing is
sent, whatever the verdict, but the program's maps change as if the packets had come in by the
loopback interface: this is refused without --yes. The kernel cannot run programs of devmap or
cpumap entries in this way.`

const benchExamples = `  xdpcap bench --program lb --packets out.pcapng --yes    a program of your own, on your packets
  xdpcap bench --program 17 --yes                         short packets of TCP and UDP`

// NewBench returns the command.
func NewBench(p *frame.Process) *cobra.Command {
	o := benchOptions{process: p}
	cmd := &cobra.Command{
		Use:     "bench --program NAME [flags]",
		Short:   "Measure an XDP program on packets of a capture",
		Long:    benchHelp,
		Example: benchExamples,
		Args:    frame.NoArguments,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runBench(cmd.OutOrStdout(), &o) },
	}
	frame.AddFlags(cmd, "What", []frame.Flag{
		{Name: "program", Value: &o.program, Complete: p.CompleteProgram, Help: "measure this loaded XDP program, `NAME` or id"},
		{Name: "packets", Value: &o.packets,
			Help: fmt.Sprintf("run it on the first %d packets of this `file`, pcapng or pcap, or either compressed; - is standard input", bench.MaxPackets)},
		{Name: "yes", Value: &o.yes, Help: "allow the program to run, which changes its maps"},
	}...)
	frame.AddFlags(cmd, "When", frame.Flag{Name: "duration", Value: &o.duration, Default: "2s", Help: "measure for about this `time`, in CPU time"})
	frame.AddFlags(cmd, "Output", frame.Flag{Name: "json", Value: &o.json, Help: "print the report as JSON: one object"})
	return cmd
}

func runBench(out io.Writer, o *benchOptions) error {
	if o.program == "" {
		return errors.New("--program is missing: which program? its NAME or id")
	}
	if o.duration < 10*time.Millisecond {
		return fmt.Errorf("--duration %v: must be at least 10ms", o.duration)
	}
	if err := frame.CheckPrints(); err != nil {
		return err
	}
	r, err := o.measure()
	if err != nil {
		return err
	}
	if o.json {
		return frame.ExplainPrint(escape.NewJSONEncoder(out).Encode(r))
	}
	var text bytes.Buffer
	r.WriteTable(&text)
	_, err = out.Write(text.Bytes())
	return frame.ExplainPrint(err)
}

// measure measures the program on the first CPU that this process may run on.
func (o *benchOptions) measure() (*BenchReport, error) {
	cpu, err := firstCPU()
	if err != nil {
		return nil, err
	}
	packets, err := o.readPackets()
	if err != nil {
		return nil, err
	}
	if err := frame.ForOwnRights("--program"); err != nil {
		return nil, err
	}
	ctx, err := o.process.Begin(frame.Guard{})
	if err != nil {
		return nil, err
	}
	p, err := xdp.FindProgram(o.program)
	if err != nil {
		return nil, err
	}
	if !o.yes {
		return nil, fmt.Errorf("--program runs %v on packets as if they had come in: none is sent, but the program's maps change, and "+
			"whoever reads them counts these packets as real; add --yes to do it anyway", p)
	}
	frame.Say(o.process.Stderr, "measuring %v on CPU %d for %v and longer", p, cpu, o.duration)
	b, err := bench.Measure(ctx, bench.Options{Program: p, Packets: packets.Data, CPU: cpu, Duration: o.duration})
	if err != nil {
		return nil, err
	}
	return newProgramReport(b, packets, cpu), nil
}

func firstCPU() (int, error) {
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		return 0, fmt.Errorf("ask for the CPUs of this process: %w", err)
	}
	for cpu := range len(allowed) * 64 {
		if allowed.IsSet(cpu) {
			return cpu, nil
		}
	}
	return 0, errors.New("this process may run on no CPU")
}

// readPackets reads the packets of --packets. Without --packets it returns none, and bench makes
// its own.
func (o *benchOptions) readPackets() (*bench.Packets, error) {
	if o.packets == "" {
		return &bench.Packets{}, nil
	}
	f, err := frame.OpenWaiting(o.process.Signalled(), o.packets)
	if err != nil {
		return nil, fmt.Errorf("--packets: %w", err)
	}
	defer f.Close() // only read
	name := o.packets
	if name == "-" {
		name = frame.StdinName
	}
	packets, err := bench.ReadPackets(f, name)
	if err != nil {
		return nil, fmt.Errorf("--packets: %w", err)
	}
	return packets, nil
}
