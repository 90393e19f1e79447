package frame

import (
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/xdpcap/xdpcap/internal/escape"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

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
	return slices.DeleteFunc(words, func(word string) bool { return escape.ShellWord(word) != word })
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
