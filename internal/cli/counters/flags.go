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
	Process  *frame.Process
	interval time.Duration
	count    uint64        // intervals; 0 = until a signal
	Duration time.Duration // 0 = until a signal
	JSON     bool
	listen   string // address of the metrics, "" = none
	PerCPU   bool
	NoPerCPU bool // set before AddFlags: the command has no --per-cpu
	quiet    bool
	Verbose  int
	Keep     bool // --no-sandbox
}

// minInterval bounds the load that reading the counters causes.
const minInterval = 10 * time.Millisecond

// CountingFlags are flags of AddFlags that have no effect where a command prints single events in
// place of counters.
var CountingFlags = []string{"interval", "count", "per-cpu", "listen", "quiet"}

// AddFlags adds these flags to those of a command, as the last groups.
func (o *Options) AddFlags(f *pflag.FlagSet) {
	frame.AddGroup(f, "When", o.timeFlags)
	frame.AddGroup(f, "Output", o.outputFlags)
	frame.AddGroup(f, "Privileges", func(f *pflag.FlagSet) { frame.NoSandboxVar(f, &o.Keep) })
}

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

// InterfacesVar defines the flag for the interfaces that a command counts on.
func InterfacesVar(f *pflag.FlagSet, interfaces *[]string, usage string) {
	f.StringArrayVarP(interfaces, "interface", "i", nil, usage+"; repeat it for several")
}

// ProgramVar defines --program for a command that takes one.
func ProgramVar(f *pflag.FlagSet, program *string) {
	f.StringVar(program, "program", "", "where several programs run, trace this one: `NAME` or id; also the id of one in a devmap or cpumap")
}

func (o *Options) check() error {
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
// has those that were given, such as "--program".
func (o *Options) CheckInterfaces(interfaces []string, given ...string) error {
	switch {
	case len(interfaces) > 0:
		return frame.CheckInterfaces(interfaces)
	case o.listen == "":
		return errors.New("which interface? -i NAME; " + o.Process.ListInterfaces() + " lists them")
	case len(given) > 0:
		return fmt.Errorf("%s needs a named interface: add -i NAME", given[0])
	}
	return nil
}

// CheckPod refuses --pod without -i for a command that then counts for the whole machine.
func (o *Options) CheckPod(f *pflag.FlagSet, interfaces []string) error {
	if len(interfaces) > 0 || !f.Changed("pod") {
		return nil
	}
	return errors.New("--pod without -i would count for the whole machine: add -i NAME; " + o.Process.ListInterfaces() + " lists the pod's")
}
