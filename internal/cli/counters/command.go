package counters

import (
	"github.com/spf13/cobra"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
)

// A Group has flags that only one counter command has, below a title in its help.
type Group struct {
	Title string
	Flags []frame.Flag
}

// NewCommand completes a counter command, which has its texts and RunE: it adds the command's own
// flags, then those that all counter commands have.
func NewCommand(p *frame.Process, o *Options, cmd *cobra.Command, own ...Group) *cobra.Command {
	o.Process, o.Flags = p, cmd.Flags()
	own = append(own, Group{"When", o.timeFlags()}, Group{"Output", o.outputFlags()}, Group{"Privileges", []frame.Flag{frame.NoSandboxFlag(&o.keep)}})
	for _, g := range own {
		for i := range g.Flags {
			switch g.Flags[i].Name {
			case "interface":
				g.Flags[i].Complete = p.CompleteInterface
			case "program":
				g.Flags[i].Complete = p.CompleteProgram
			}
		}
		frame.AddFlags(cmd, g.Title, g.Flags...)
	}
	return cmd
}
