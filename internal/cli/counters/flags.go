package counters

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
)

// Options are the flags that all counter commands have.
type Options struct {
	Process *frame.Process
	Flags   *pflag.FlagSet // all of the command

	// A command sets these before newCommand.
	ofMachine  bool   // without -i, the packets of the whole machine are counted together
	noPerCPU   bool   // there is no --per-cpu
	firstWords string // the beginning of the first message, before a counter's name; "" = listening on

	// A command sets these before run.
	tracesOnly bool   // it only traces XDP programs: with a pattern, on the interfaces that run one
	instead    string // another way to the result, if the kernel refuses to trace: frame.Untraced

	Interfaces frame.Interfaces
	Program    string // name or id; "" = any, or all programs
	interval   time.Duration
	count      uint64        // intervals; 0 = until a signal
	Duration   time.Duration // 0 = until a signal
	JSON       bool
	listen     string // address of the metrics, "" = none
	perCPU     bool
	quiet      bool
	color      string
	Verbose    frame.Count
	noSandbox  bool
}

// A flagGroup has flags that only one counter command has, below a title in its help.
type flagGroup struct {
	Title string
	Flags []frame.Flag
}

// newCommand completes a counter command, which has its texts and RunE: it adds the command's own
// flags, then the common ones.
func newCommand(o *Options, cmd *cobra.Command, own ...flagGroup) *cobra.Command {
	o.Flags = cmd.Flags()
	own = append(own,
		flagGroup{"When", o.timeFlags()},
		flagGroup{"Output", o.outputFlags()},
		flagGroup{"Privileges", []frame.Flag{frame.NoSandboxFlag(&o.noSandbox)}})
	for _, g := range own {
		frame.AddFlags(cmd, g.Title, g.Flags...)
	}
	return cmd
}

// minInterval bounds the load that reading the counters causes.
const minInterval = 10 * time.Millisecond

func (o *Options) timeFlags() []frame.Flag {
	return []frame.Flag{
		{Name: "interval", Value: &o.interval, Default: "1s", Help: "print once per `time`: 200ms, 1s or just 1, 1m"},
		{Name: "count", Letter: "c", Value: &o.count, Help: "end after this many `intervals`; 0: at Ctrl-C"},
		{Name: "duration", Value: &o.Duration, Help: "end after this `time`: 10s or just 10, 5m, 1h"},
	}
}

func (o *Options) outputFlags() []frame.Flag {
	flags := []frame.Flag{
		{Name: "json", Value: &o.JSON, Help: "print the report as JSON: one object per interval and line"},
		frame.ListenFlag(&o.listen),
		{Name: "per-cpu", Value: &o.perCPU, Help: "count each CPU by itself"},
		frame.ColorFlag(&o.color),
		{Name: "quiet", Letter: "q", Value: &o.quiet, Help: "print only the totals, at the end"},
		{Name: "verbose", Letter: "v", Value: &o.Verbose, Help: "print more about errors"},
	}
	if o.noPerCPU {
		flags = slices.DeleteFunc(flags, func(f frame.Flag) bool { return f.Name == "per-cpu" })
	}
	return flags
}

// interfaceFlag is the flag for the interfaces that a command counts on.
func (o *Options) interfaceFlag(usage string) frame.Flag {
	return frame.Flag{Name: "interface", Letter: "i", Value: (*[]string)(&o.Interfaces),
		Complete: o.Process.CompleteInterface, Help: usage + "; repeat it for several"}
}

// programFlag is --program of a command that traces one.
func (o *Options) programFlag() frame.Flag {
	return frame.Flag{Name: "program", Value: &o.Program, Complete: o.Process.CompleteProgram,
		Help: "where several programs run, trace this one: `NAME` or id; also the id of one in a devmap or cpumap"}
}

// check finds mistakes in the flags that all counter commands have.
func (o *Options) check() error {
	if err := o.checkPod(); err != nil {
		return err
	}
	if o.interval < minInterval {
		return fmt.Errorf("--interval %v: must be at least %v", o.interval, minInterval)
	}
	if o.Duration > 0 && o.Duration < minInterval {
		return fmt.Errorf("--duration %v: must be at least %v", o.Duration, minInterval)
	}
	if err := frame.CheckColor(o.color); err != nil {
		return err
	}
	if o.listen != "" {
		return nil // Prometheus reads the counters, and a daemon often has no standard output
	}
	return frame.CheckPrints()
}

// checkInterfaces refuses a command without -i, unless it exports its counters: then it counts on
// all interfaces. --program needs a named interface, and so do the flags in given, which are the
// command's own: "--action drop".
func (o *Options) checkInterfaces(given ...string) error {
	if err := o.Interfaces.Check(); err != nil {
		return err
	}
	switch {
	case len(o.Interfaces) > 0 && !o.Interfaces.HasPattern(): // all are named
	case len(o.Interfaces) == 0 && o.listen == "":
		return o.Process.WhichInterface(", or -i any")
	case o.Program != "":
		return errors.New("--program needs a named interface: add -i " + frame.SomeInterface())
	case len(given) > 0:
		return fmt.Errorf("%s needs a named interface: add -i %s", given[0], frame.SomeInterface())
	}
	return nil
}

// checkPod refuses --pod without -i for a command that then counts for the whole machine.
func (o *Options) checkPod() error {
	if !o.ofMachine || len(o.Interfaces) > 0 || !o.Flags.Changed("pod") {
		return nil
	}
	return errors.New("--pod without -i would count for the whole machine: add -i " + frame.SomeInterface() + "; " + o.Process.ListInterfaces() + " lists the pod's")
}
