package counters

import (
	"github.com/spf13/cobra"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
)

// A flagGroup has flags that only one counter command has, below a title in its help.
type flagGroup struct {
	Title string
	Flags []frame.Flag
}

// newCommand completes a counter command, which has its texts and RunE: it adds the command's own
// flags, then those that all counter commands have.
func newCommand(p *frame.Process, o *Options, cmd *cobra.Command, own ...flagGroup) *cobra.Command {
	o.Process, o.Flags = p, cmd.Flags()
	own = append(own, flagGroup{"When", o.timeFlags()}, flagGroup{"Output", o.outputFlags()}, flagGroup{"Privileges", []frame.Flag{frame.NoSandboxFlag(&o.keep)}})
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
