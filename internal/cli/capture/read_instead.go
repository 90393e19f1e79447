package capture

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/message"
)

// readInstead runs the command read for a command line of the capture with -r, as tcpdump has it.
func readInstead(cmd *cobra.Command, files, words []string) error {
	read, _, err := cmd.Root().Find([]string{"read"})
	if err != nil {
		return err
	}
	args, err := readLine(read, cmd.Flags(), files, words)
	if err != nil {
		return err
	}
	if err := read.ParseFlags(args); err != nil {
		return err
	}
	if err := read.PreRunE(read, nil); err != nil {
		return err
	}
	return read.RunE(read, read.Flags().Args())
}

// isSlice reports whether a flag may be repeated, each time with one value.
func isSlice(v pflag.Value) bool {
	_, ok := v.(pflag.SliceValue)
	return ok && v.Type() != "stringSlice"
}

// readLine translates flags of the capture to arguments of read.
func readLine(read *cobra.Command, given *pflag.FlagSet, files, words []string) (args []string, err error) {
	given.Visit(func(f *pflag.Flag) {
		ofRead := read.Flags().Lookup(f.Name)
		switch {
		case f.Name == "read-file" || ofRead != nil && frame.IsAcceptedPeerFlag(ofRead):
		case ofRead != nil && frame.InsteadOfPeerFlag(ofRead) != "":
			err = fmt.Errorf("%s: %s", frame.FlagName(f), frame.InsteadOfPeerFlag(ofRead))
		case ofRead == nil && frame.IsAcceptedPeerFlag(f):
		case ofRead == nil:
			err = fmt.Errorf("%s does not work with -r: omit it; see xdpcap read --help", frame.FlagName(f))
		case f.Name == "json" && f.Value.String() != onStderr:
			err = fmt.Errorf("--json=%[1]s does not work with -r, which prints packets as JSON to standard output: say --json >%[1]s", message.ShellWord(f.Value.String()))
		case f.Name == "json":
			args = append(args, "--json")
		case isSlice(f.Value):
			for _, value := range f.Value.(pflag.SliceValue).GetSlice() {
				args = append(args, "--"+f.Name+"="+value)
			}
		default:
			args = append(args, "--"+f.Name+"="+f.Value.String())
		}
	})
	return slices.Concat(args, files, []string{"--"}, words), err
}
