package counters

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
)

// Options are the flags that all counter commands have.
type Options struct {
	Process *frame.Process
	Flags   *pflag.FlagSet // all of the command

	// What a command sets before NewCommand.
	OfMachine bool // without -i, everything of this machine is counted together
	NoPerCPU  bool // there is no --per-cpu

	Interfaces []string
	Program    string // "" = any, or all programs
	interval   time.Duration
	count      uint64        // intervals; 0 = until a signal
	Duration   time.Duration // 0 = until a signal
	JSON       bool
	listen     string // address of the metrics, "" = none
	PerCPU     bool
	quiet      bool
	Verbose    int
	keep       bool // --no-sandbox
}

// minInterval bounds the load that reading the counters causes.
const minInterval = 10 * time.Millisecond

func (o *Options) timeFlags(f *pflag.FlagSet) {
	frame.DurationVar(f, &o.interval, "interval", time.Second, "print once per `time`: 200ms, 1s or just 1, 1m")
	f.Uint64VarP(&o.count, "count", "c", 0, "end after this many `intervals`; 0: at Ctrl-C")
	frame.DurationVar(f, &o.Duration, "duration", 0, "end after this `time`: 10s or just 10, 5m, 1h")
}

func (o *Options) outputFlags(f *pflag.FlagSet) {
	f.BoolVar(&o.JSON, "json", false, "print the report as JSON: one object per interval and line")
	frame.ListenVar(f, &o.listen)
	if !o.NoPerCPU {
		f.BoolVar(&o.PerCPU, "per-cpu", false, "count each CPU by itself")
	}
	f.BoolVarP(&o.quiet, "quiet", "q", false, "print only the totals, at the end")
	f.CountVarP(&o.Verbose, "verbose", "v", "print more about errors")
}

// InterfaceFlag defines the flag for the interfaces that a command counts on.
func (o *Options) InterfaceFlag(f *pflag.FlagSet, usage string) {
	f.StringArrayVarP(&o.Interfaces, "interface", "i", nil, usage+"; repeat it for several")
}

// ProgramFlag defines --program for a command that traces one.
func (o *Options) ProgramFlag(f *pflag.FlagSet) {
	f.StringVar(&o.Program, "program", "", "where several programs run, trace this one: `NAME` or id; also the id of one in a devmap or cpumap")
}

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
	if o.listen != "" {
		return nil // Prometheus reads the counters, and a daemon often has no standard output
	}
	return frame.CheckPrints()
}

// CheckInterfaces refuses a command without -i, unless it exports its counters: then it counts on
// all interfaces. Flags that choose a program, or that drop packets, need a named interface; given
// has those of the command's own that were given, such as "--action drop".
func (o *Options) CheckInterfaces(given ...string) error {
	switch {
	case len(o.Interfaces) > 0:
		return frame.CheckInterfaces(o.Interfaces)
	case o.listen == "":
		return errors.New("which interface? -i NAME; " + o.Process.ListInterfaces() + " lists them")
	case o.Program != "":
		return errors.New("--program needs a named interface: add -i NAME")
	case len(given) > 0:
		return fmt.Errorf("%s needs a named interface: add -i NAME", given[0])
	}
	return nil
}

// checkPod refuses --pod without -i for a command that then counts for the whole machine.
func (o *Options) checkPod() error {
	if !o.OfMachine || len(o.Interfaces) > 0 || !o.Flags.Changed("pod") {
		return nil
	}
	return errors.New("--pod without -i would count for the whole machine: add -i NAME; " + o.Process.ListInterfaces() + " lists the pod's")
}
