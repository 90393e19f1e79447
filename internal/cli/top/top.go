// Package top is the command top, which shows the counters of interfaces on a terminal.
//
// Sources read the counters once a second, into readings. The model turns these into tables, keeps
// their last minute, and is changed by keys. Readings and model are tested without a terminal,
// whose library only screen.go uses.
package top

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/cli/filters"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/message"
)

// Options are the flags of the command top.
type Options struct {
	process    *frame.Process
	interfaces frame.Interfaces
	directions string
	direction  capture.Direction
	program    string
	filter     filters.Options
	duration   time.Duration
	color      string
	sandbox    frame.Sandbox
}

const help = `top shows on one screen who sends what, what happens to it, and what is lost: flows, verdicts,
protocols, sizes, losses, run times and interfaces, each with its share and the last minute. The
numbers are those of count, stats, drops and latency, at the same cost to the packets.

A program that runs on an interface is traced, and stays unchanged; if the kernel cannot trace it,
packets are counted after it, at tc. Elsewhere they are counted where that costs least, as with
--at auto of a capture. Enter shows the packets of a row as they come, and w writes them to a file
in the directory in which top was started. / takes another filter, ? shows all keys.

top needs a terminal. In a pipe, and for screen readers, count and drops print plain tables.`

const examples = `  xdpcap top -i eth0                            what eth0 receives
  xdpcap top -i eth0 -Q inout 'tcp port 443'    both directions of what matches
  xdpcap top -i any                             all interfaces of this machine, a row each
  xdpcap top -i 'veth*' --color never           all with such a name; no colours`

// New returns the command.
func New(p *frame.Process) *cobra.Command {
	o := &Options{process: p}
	cmd := &cobra.Command{
		Use:     "top -i interface [flags] [filter]",
		Short:   "Watch flows, verdicts, losses and more on one screen",
		Long:    help,
		Example: examples,
		Args:    frame.FilterArguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.filter.Words = args
			return o.run()
		},
	}
	frame.AddFlags(cmd, "Where",
		frame.Flag{Name: "interface", Letter: "i", Value: (*[]string)(&o.interfaces), Complete: p.CompleteInterface,
			Help: "watch this `interface`; a pattern such as 'veth*', or any; repeat it for several"},
		frame.Flag{Name: "direction", Letter: "Q", Value: &o.directions, Default: "in", Words: []string{"in", "out", "inout"},
			Help: "count what the interface receives (`in`), what it sends (out), or both (inout)"},
		frame.Flag{Name: "program", Value: &o.program, Complete: p.CompleteProgram,
			Help: "where several programs run, trace this one: `NAME` or id"})
	frame.AddFlags(cmd, "What",
		o.filter.SetFlag(),
		frame.Flag{Name: "vlan-aware", Value: &o.filter.VLANAware, Help: "let the filter also match after one or two VLAN tags"},
		o.filter.VXLANPortFlag())
	frame.AddFlags(cmd, "When",
		frame.Flag{Name: "duration", Value: &o.duration, Help: "end after this `time`: 10s or just 10, 5m, 1h"})
	frame.AddFlags(cmd, "Output",
		frame.ColorFlag(&o.color))
	frame.AddFlags(cmd, "Privileges", o.sandbox.Flags()...)
	return cmd
}

// check finds mistakes in the flags before a program is attached.
func (o *Options) check() (err error) {
	if err := o.filter.Read(o.process.UntilSignal()); err != nil {
		return err
	}
	if err := o.interfaces.Check(); err != nil {
		return err
	}
	if len(o.interfaces) == 0 {
		return o.process.WhichInterface(", or -i any")
	}
	if o.direction, err = capture.ParseDirection(strings.ToLower(o.directions)); err != nil {
		return fmt.Errorf("-Q: %w", err)
	}
	if err := frame.CheckColor(o.color); err != nil {
		return err
	}
	return o.checkTerminal()
}

// checkTerminal refuses a standard input or output that is no terminal, and names the commands that
// print the same as text.
func (o *Options) checkTerminal() error {
	const stdin = 0
	isDumb := slices.Contains([]string{"", "dumb"}, os.Getenv("TERM"))
	if term.IsTerminal(int(o.process.Stdout.File.Fd())) && term.IsTerminal(stdin) && !isDumb {
		return nil
	}
	words, filter := "", ""
	for _, name := range o.interfaces {
		words += " -i " + message.ShellWord(name)
	}
	if o.filter.Text != "" {
		filter = " " + message.ShellWord(o.filter.Text)
	}
	lost := words
	if o.interfaces.HasPattern() {
		lost = " -i any" // drops takes no other patterns
	}
	return fmt.Errorf("top draws on a terminal, and this is none: for plain tables: xdpcap count%s --sizes --flows 10%s; "+
		"and of what is lost: xdpcap drops%s", words, filter, lost)
}
