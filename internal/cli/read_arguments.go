package cli

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/cli/outputs"
)

// splitArguments divides arguments into files and the words of a filter. dash is how many of them
// stood before a --, or -1.
//
// The first argument is a file, and so are those after it, up to the first that is not. An argument
// is a file if it has a capture file's name, or if such a file exists and its name is not a word of
// filters: a directory of captures may have a file called ip, but tcpdump's users expect the word.
func splitArguments(args []string, dash int) (files, words []string) {
	if dash >= 0 {
		return args[:dash], args[dash:]
	}
	for i, arg := range args {
		if i > 0 && !namesFile(arg) {
			return args[:i], args[i:]
		}
	}
	return args, nil
}

func namesFile(arg string) bool {
	if arg == "-" || streamURL(arg) != nil || outputs.IsCaptureName(arg) {
		return true
	}
	if filter.IsKeyword(arg) {
		return false
	}
	_, err := os.Stat(arg)
	return err == nil
}

// explainWords returns the error of a faulty filter, or a better one if its first word was probably
// meant as a file.
func explainWords(faulty error, words []string) error {
	if !errors.As(faulty, new(*filter.Error)) || len(words) == 0 || !strings.Contains(words[0], "/") || strings.ContainsAny(words[0], " \t()") {
		return faulty
	}
	return fmt.Errorf("%s is neither a file nor a filter", words[0])
}

// readInstead runs read for a command line of the capture that has -r, as tcpdump's users type it.
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

// isSlice says whether a flag may be repeated, each time with one value.
func isSlice(v pflag.Value) bool {
	_, ok := v.(pflag.SliceValue)
	return ok && v.Type() != "stringSlice"
}

// readLine returns the arguments of read that mean the same as these flags of the capture.
func readLine(read *cobra.Command, given *pflag.FlagSet, files, words []string) (args []string, err error) {
	given.Visit(func(f *pflag.Flag) {
		peer, ok := f.Value.(*peerFlag)
		switch {
		case f.Name == "read-file" || ok && peer.accepted != "":
		case read.Flags().Lookup(f.Name) == nil:
			err = fmt.Errorf("%s does not work with -r: omit it; see xdpcap read --help", frame.FlagName(f))
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
