package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
)

// counterOptions are the flags that all counter commands have.
type counterOptions struct {
	interval time.Duration
	count    uint64        // intervals; 0 = until a signal
	duration time.Duration // 0 = until a signal
	json     bool
	listen   string // address of the metrics, "" = none
	perCPU   bool
	quiet    bool
	verbose  int
	keep     bool // --no-sandbox
}

// minInterval bounds the load that reading the counters causes.
const minInterval = 10 * time.Millisecond

// addFlags adds these flags to those of a command, as the last groups.
func (o *counterOptions) addFlags(f *pflag.FlagSet) {
	frame.AddGroup(f, "When", o.timeFlags)
	frame.AddGroup(f, "Output", o.outputFlags)
	frame.AddGroup(f, "Privileges", func(f *pflag.FlagSet) { frame.NoSandboxVar(f, &o.keep) })
}

func (o *counterOptions) timeFlags(f *pflag.FlagSet) {
	frame.DurationVar(f, &o.interval, "interval", time.Second, "print once per `time`: 200ms, 1s or just 1, 1m")
	f.Uint64VarP(&o.count, "count", "c", 0, "end after this many `intervals`; 0: at Ctrl-C")
	frame.DurationVar(f, &o.duration, "duration", 0, "end after this `time`: 10s or just 10, 5m, 1h")
}

func (o *counterOptions) outputFlags(f *pflag.FlagSet) {
	f.BoolVar(&o.json, "json", false, "print one JSON object per interval and line")
	frame.ListenVar(f, &o.listen)
	f.BoolVar(&o.perCPU, "per-cpu", false, "count each CPU by itself")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "print only the totals, at the end")
	f.CountVarP(&o.verbose, "verbose", "v", "print more about errors")
}

// interfacesVar defines the flag for the interfaces that a command counts on.
func interfacesVar(f *pflag.FlagSet, interfaces *[]string, usage string) {
	f.StringArrayVarP(interfaces, "interface", "i", nil, usage+"; repeat it for several")
}

// programVar defines --program for a command that takes one.
func programVar(f *pflag.FlagSet, program *string) {
	f.StringVar(program, "program", "", "where several programs run, trace this one: `NAME` or id; also the id of one in a devmap or cpumap")
}

// modeVar defines --xdp-mode for a command that attaches a program where none runs.
func modeVar(f *pflag.FlagSet, mode *string) {
	f.StringVar(mode, "xdp-mode", "auto", "attach in this `mode`: native (in the driver), generic (in the stack), or auto (native where possible)")
}

func (o *counterOptions) check() error {
	if o.interval < minInterval {
		return fmt.Errorf("--interval %v: must be at least %v", o.interval, minInterval)
	}
	if o.duration > 0 && o.duration < minInterval {
		return fmt.Errorf("--duration %v: must be at least %v", o.duration, minInterval)
	}
	if o.listen != "" {
		return nil // Prometheus reads the counters, and a daemon often has no standard output
	}
	return frame.CheckPrints()
}

var errNoInterface = errors.New("which interface? -i NAME; xdpcap interfaces lists them")

// checkInterfaces refuses a command without -i, unless it exports its counters: then it counts on
// all interfaces. Flags that choose a program, or that drop packets, need a named interface; given
// has those that were given, such as "--program".
func (o *counterOptions) checkInterfaces(interfaces []string, given ...string) error {
	switch {
	case len(interfaces) > 0:
		return nil
	case o.listen == "":
		return errNoInterface
	case len(given) > 0:
		return fmt.Errorf("%s needs a named interface: add -i NAME", given[0])
	}
	return nil
}
