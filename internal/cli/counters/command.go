package counters

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
)

// A Group has flags that only one counter command has, below a title in its help.
type Group struct {
	Title  string
	Define func(f *pflag.FlagSet)
}

// NewCommand completes a counter command, which has its texts and RunE: it adds the command's own
// flags, then those that all counter commands have, and the completion of both.
func NewCommand(p *frame.Process, o *Options, cmd *cobra.Command, own ...Group) *cobra.Command {
	o.Process, o.Flags = p, cmd.Flags()
	for _, g := range own {
		frame.AddGroup(o.Flags, g.Title, g.Define)
	}
	frame.AddGroup(o.Flags, "When", o.timeFlags)
	frame.AddGroup(o.Flags, "Output", o.outputFlags)
	frame.AddGroup(o.Flags, "Privileges", func(f *pflag.FlagSet) { frame.NoSandboxVar(f, &o.keep) })
	frame.CompleteWords(cmd)
	cmd.RegisterFlagCompletionFunc("interface", p.CompleteInterface)
	cmd.RegisterFlagCompletionFunc("program", p.CompleteProgram) // fails where a command has no such flag
	return cmd
}
