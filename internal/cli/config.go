package cli

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/message"
)

const configHelp = `config prints which flags are set outside of the command line, to which values, and where. The first
of these places that sets a flag counts: the command line, the environment, the user's file, the
machine's file.

  XDPCAP_SNAPSHOT_LENGTH=128     in the environment: the flag's name in capitals, with _ for -;
                                 sudo keeps it with --preserve-env=XDPCAP_SNAPSHOT_LENGTH
  snapshot-length = 128          in ~/.config/xdpcap/config or /etc/xdpcap.conf; lines that begin
                                 with # are comments

A setting applies to every command whose flag takes the value: count = 10 applies to the counters,
but not to the capture, whose --count takes no number. The table names these commands; xdpcap is the
capture. A value that no command takes is an error. Set a flag without a value to true or false, and
--verbose to a number. Give a flag that may be repeated one line in the file for each value.
XDPCAP_CONFIG=FILE reads that file instead of both; XDPCAP_CONFIG=/dev/null reads none. A variable
that has the name of no flag is ignored, with a message if it is nearly the name of one.

Root ignores a file that belongs to another user, or that others may write. --no-sandbox,
--postrotate-command, --relinquish-privileges, --netns and --pod can be set only on the command line
and in a file in /etc. A binary that has capabilities which its caller lacks reads only
/etc/xdpcap.conf.`

// settings applies and prints settings: values of flags in files and in the environment.
type settings struct {
	Process *frame.Process
	Files   settingsFiles
}

// newConfig returns the command config.
func (s *settings) newConfig() *cobra.Command {
	return &cobra.Command{
		Use:     "config",
		Short:   "Print the settings in files and in the environment",
		Long:    configHelp,
		Example: "  xdpcap config\n  XDPCAP_INTERFACE=eth0 xdpcap config",
		Args:    frame.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, notices, err := s.Files.Read(settableFlags(cmd.Root()))
			if err != nil {
				return err
			}
			s.print(cmd, notices)
			return s.write(cmd, all)
		},
	}
}

// write prints the settings as a table.
func (s *settings) write(cmd *cobra.Command, all []setting) error {
	out := cmd.OutOrStdout()
	if len(all) == 0 {
		_, err := fmt.Fprintf(out, "nothing is set by %s* or in %s\n", SettingPrefix, strings.Join(s.Files.Paths(), " or "))
		return frame.ExplainPrint(err)
	}
	slices.SortStableFunc(all, func(a, b setting) int { return strings.Compare(a.Flag, b.Flag) })
	t := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "FLAG\tVALUE\tFROM\tCOMMANDS")
	for _, values := range byFlag(all) {
		a := values.apply(cmd.Root())
		if len(a.takers) == 0 {
			return a.first
		}
		slices.Sort(a.takers)
		for _, v := range values {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", v.Flag, message.Escape(v.Value), message.Escape(v.From), strings.Join(a.takers, " "))
		}
	}
	return frame.ExplainPrint(t.Flush())
}
