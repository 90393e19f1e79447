package frame

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/xdp"
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

// interfacesOf lists the interfaces in the namespace of a command, which --netns and --pod change.
func (p *Process) interfacesOf(cmd *cobra.Command) ([]xdp.Interface, error) {
	if err := p.EnterNetns(cmd.Flags()); err != nil {
		return nil, err
	}
	return xdp.Interfaces()
}

// CompleteInterface offers the interfaces in the namespace of the command.
func (p *Process) CompleteInterface(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	ifis, err := p.interfacesOf(cmd)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for _, ifi := range ifis {
		names = append(names, ifi.Name)
	}
	return typable(names), cobra.ShellCompDirectiveNoFileComp
}

// typable omits words that need quotes in a shell. Shells put the common prefix of several
// completions on the command line without quotes, and a container chooses the names of its
// interfaces and programs, which may be $(reboot).
func typable(words []string) []string {
	return slices.DeleteFunc(words, func(word string) bool { return message.ShellWord(word) != word })
}

// CompleteList completes the last word of a list with commas. It offers no word twice.
func CompleteList(words ...string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return inList(words, typed), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

// inList returns completions of what was typed. It keeps everything before the last comma.
func inList(words []string, typed string) (complete []string) {
	before := typed[:strings.LastIndexByte(typed, ',')+1]
	for _, word := range words {
		if !slices.Contains(strings.Split(before, ","), word) {
			complete = append(complete, before+word)
		}
	}
	return complete
}

// CompleteProgram offers the programs that run on the interfaces of -i, or on all.
func (p *Process) CompleteProgram(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	ifis, err := p.interfacesOf(cmd)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	given, _ := cmd.Flags().GetStringArray("interface")
	var words []string
	for _, ifi := range ifis {
		if len(given) > 0 && !slices.Contains(given, ifi.Name) {
			continue
		}
		running, err := xdp.Running(ifi)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		for _, program := range running {
			word := program.Name
			if word == "" || slices.Contains(words, word) {
				word = strconv.FormatUint(uint64(program.ID), 10)
			}
			words = append(words, word)
		}
	}
	return inList(typable(words), typed), cobra.ShellCompDirectiveNoFileComp
}
