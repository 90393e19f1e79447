package frame

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xdpcap/xdpcap/internal/message"
)

// MendBashCompletion changes one line in cobra's completion script for bash. cobra puts a backslash
// before each comma of a completed word; after that, bash would not complete the word after the
// next comma.
func MendBashCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	if completion, _, err := root.Find([]string{"completion"}); err == nil {
		completion.Args, completion.RunE = cobra.ArbitraryArgs, chooseShell
	}
	bash, _, err := root.Find([]string{"completion", "bash"})
	if err != nil || bash.Name() != "bash" {
		return
	}
	bash.RunE = func(cmd *cobra.Command, _ []string) error {
		without, _ := cmd.Flags().GetBool("no-descriptions")
		script, err := bashCompletion(root, !without)
		if err != nil {
			return err
		}
		_, err = cmd.OutOrStdout().Write(script)
		return ExplainPrint(err)
	}
}

// chooseShell runs `completion` without one of its subcommands: it prints the help, or refuses the
// name of an unknown shell.
func chooseShell(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	var shells []string
	for _, c := range cmd.Commands() {
		shells = append(shells, c.Name())
	}
	meant := cmp.Or(message.DidYouMean("", args[0], shells), ": must be one of "+strings.Join(shells, ", "))
	return fmt.Errorf("completion for %q%s", args[0], meant)
}

// MendDescriptions removes the backticks around the names of values from the descriptions of flags,
// if the arguments request completions: a shell would show them. Only the help needs them.
func MendDescriptions(root *cobra.Command, args []string) {
	if len(args) == 0 || !strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		return
	}
	for _, cmd := range append(root.Commands(), root) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) { f.Usage = strings.ReplaceAll(f.Usage, "`", "") })
		cmd.Short = strings.ReplaceAll(cmd.Short, "`", "")
	}
}

func bashCompletion(root *cobra.Command, descriptions bool) ([]byte, error) {
	var script bytes.Buffer
	if err := root.GenBashCompletionV2(&script, descriptions); err != nil {
		return nil, err
	}
	escape := []byte(`COMPREPLY[0]=$(printf "%q" "${COMPREPLY[0]}")`)
	mended := slices.Concat(escape, []byte("\n            COMPREPLY[0]=${COMPREPLY[0]//\\\\,/,}"))
	return bytes.ReplaceAll(script.Bytes(), escape, mended), nil
}
