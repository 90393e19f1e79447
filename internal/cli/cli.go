// Package cli is the command line of xdpcap: its commands, flags and messages.
package cli

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/internal/cli/capture"
	"github.com/xdpcap/xdpcap/internal/cli/counters"
	"github.com/xdpcap/xdpcap/internal/cli/filters"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/cli/inspect"
	"github.com/xdpcap/xdpcap/internal/cli/read"
	"github.com/xdpcap/xdpcap/internal/cli/top"
	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/privilege"
)

// Main runs xdpcap with the arguments of a process, the first of which is the name by which it was
// called, and returns the exit status. It is 0, or 1 after an error was printed on stderr: in one
// line, or for a filter in a few lines, one of which points to the mistake. It is called once in a
// process: it catches signals and limits memory and threads.
func Main(args []string) int {
	p := frame.NewProcess(os.Stdout, os.Stderr)
	p.CatchSignals()
	limitHeap()
	for _, prepare := range []func() error{limitThreads, privilege.SetFileRightsAside} {
		if err := prepare(); err != nil {
			frame.Say(p.Stderr, "%v", err)
			return 1
		}
	}
	files := machineFiles
	files.Unset = calledAs(args[0])
	cmd, err := execute(p, files, args[1:])
	if err == nil {
		return 0
	}
	if faulty := new(filter.Error); errors.As(err, &faulty) {
		fmt.Fprintf(p.Stderr, "xdpcap: filter expression:\n%s\n", frame.WithRemedy(faulty.Caret(), faulty))
		return 1
	}
	for _, message := range frame.Messages(err) {
		frame.Say(p.Stderr, "%s", message)
	}
	// An error of the verifier prints its whole log with %+v, and a summary with %v.
	var detailed interface {
		error
		fmt.Formatter
	}
	verbose, _ := cmd.Flags().GetCount("verbose") // 0 for a command that has no such flag
	if verbose > 0 && errors.As(err, &detailed) {
		// A pager may take its time to read all of it, and nothing is attached any more.
		fmt.Fprintf(p.Stderr.File(), "%+v\n", detailed)
	}
	return 1
}

// NewRoot returns the command for captures, which has all other commands as children, with all
// flags.
func NewRoot() *cobra.Command {
	return newRoot(frame.NewProcess(os.Stdout, os.Stderr), machineFiles)
}

// machineFiles is the default of the files with settings.
var machineFiles = settingsFiles{Machine: "/etc/xdpcap.conf"}

// newRoot is NewRoot for a process, with settings from these files.
func newRoot(p *frame.Process, files settingsFiles) *cobra.Command {
	set := &settings{Process: p, Files: files}
	var o capture.Options
	cmd := capture.New(p, &o)
	cmd.Version = frame.Version()
	cmd.SetVersionTemplate("xdpcap {{.Version}} (" + runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH + ")\n")
	frame.SetUsage(cmd, usageNotes())
	cmd.SilenceErrors = true
	cmd.SilenceUsage = true
	cmd.AddCommand(counters.NewStats(p), counters.NewCount(p), counters.NewMonitor(p), counters.NewLatency(p), counters.NewDrops(p),
		top.New(p), read.New(p), read.NewReplay(p), read.NewGather(p), inspect.NewInterfaces(p), inspect.NewProbe(p), filters.NewSet())
	for _, c := range commandsOf(cmd) {
		frame.AddFlags(c, "Where", frame.NetnsFlag())
		isRoot := c == cmd
		if hasInterface := c.Flags().Lookup("interface") != nil; hasInterface && c.Name() != "read" || c.Name() == "interfaces" {
			without := ""
			if isRoot {
				without = "; without -i all its interfaces are captured"
			}
			frame.AddFlags(c, "Where", p.PodFlag(without))
		}
		c.PreRunE = func(c *cobra.Command, _ []string) error {
			if isRoot && o.Reads() {
				return nil // the command read applies the settings
			}
			err := set.apply(c, o.PassesOver())
			if err == nil {
				err = p.EnterNetns(c.Flags())
			}
			if err != nil && isRoot {
				return capture.Run(&o, cmd, err) // reports the error in the object of --json, too
			}
			return err
		}
	}
	cmd.AddCommand(set.newConfig(), newManual(), newFilterHelp())
	frame.SetHelp(cmd)
	cmd.SetHelpCommand(newHelp())
	frame.MendBashCompletion(cmd)
	cmd.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		meant := unknownFlag(err, c)
		if errors.As(meant, new(*abbreviation)) {
			return meant // execute parses the command line again
		}
		err = frame.ExplainFlag(meant, c.CommandPath()+" --help")
		if c != cmd {
			return err
		}
		frame.SetRest(c.Flags(), os.Args[1:])
		return capture.Run(&o, cmd, err)
	})
	return cmd
}

// limitHeap sets Go's soft limit of memory to half of the available memory. The other half is for
// the rings and the queues of files, which are not in Go's heap.
func limitHeap() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(int64(machine.AvailableMemory().Bytes / 2))
	}
}

// waitingThreads is the number of threads that a command has besides those that run Go code. They
// wait in system calls, such as for a file that stalls, or belong to Go's runtime.
const waitingThreads = 10

// limitThreads limits how many threads run Go code to those that are available, because Go ends a
// process that gets no thread, and prints the stacks of all goroutines. It returns an error if too
// few threads are available.
func limitThreads() error {
	can := machine.AvailableTasks()
	if can.Number <= waitingThreads {
		return fmt.Errorf("%d threads are needed, but there can only be %v: raise pids.max, which is TasksMax= of a systemd unit and --pids-limit of a container",
			waitingThreads+1, can)
	}
	if most := can.Number - waitingThreads; most < uint64(runtime.GOMAXPROCS(0)) {
		runtime.GOMAXPROCS(int(most))
	}
	return nil
}
