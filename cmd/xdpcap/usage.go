package main

import (
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagGroups are the flags of the capture as its help shows them.
var flagGroups = []struct {
	title string
	flags []string
}{
	{"Where", []string{"interface", "program", "rx-capture", "hook", "xdp-mode", "promiscuous-mode", "no-promiscuous-mode", "sink", "yes",
		"list-interfaces"}},
	{"Which packets", []string{"expression-file", "filter-file", "vlan-aware", "verdict", "filter-at", "dump-code", "ebpf"}},
	{"How much", []string{"snapshot-length", "count", "duration", "sample-flows", "first", "sample", "max-rate", "buffer-size"}},
	{"Output", []string{"write", "format", "print", "packet-buffered", "json"}},
	{"Lines", []string{"verbose", "quiet", "link-level", "hex", "hex-ascii", "ascii", "time-format", "number", "lengths", "no-names"}},
}

// groupKey is the annotation of a flag that says in which group it stands.
const groupKey = "group"

// groupFlags puts the capture's flags into their groups.
func groupFlags(f *pflag.FlagSet) {
	for _, g := range flagGroups {
		for _, name := range g.flags {
			f.SetAnnotation(name, groupKey, []string{g.title})
		}
	}
}

// usageWidth is how many columns the help takes at most.
const usageWidth = 100

// flagUsages lists flags for the help: those that have a group below its title, the others last.
func flagUsages(all *pflag.FlagSet) string {
	var b strings.Builder
	for _, g := range flagGroups {
		in := pflag.NewFlagSet(g.title, pflag.ContinueOnError)
		in.SortFlags = false
		for _, name := range g.flags {
			if f := all.Lookup(name); f != nil && slices.Equal(f.Annotations[groupKey], []string{g.title}) {
				in.AddFlag(f)
			}
		}
		if in.HasFlags() {
			b.WriteString("\n " + g.title + ":\n" + in.FlagUsagesWrapped(usageWidth))
		}
	}
	rest := pflag.NewFlagSet("", pflag.ContinueOnError)
	rest.SortFlags = false
	all.VisitAll(func(f *pflag.Flag) {
		if f.Annotations[groupKey] == nil {
			rest.AddFlag(f)
		}
	})
	if b.Len() > 0 && rest.HasFlags() {
		b.WriteString("\n Other:\n")
	}
	b.WriteString(rest.FlagUsagesWrapped(usageWidth))
	// pflag names the type of a flag that counts how often it is given, as if it took a value.
	return countingFlag.ReplaceAllString(b.String(), "$1      ")
}

var countingFlag = regexp.MustCompile(`(?m)^(\s+-\w, --[\w-]+) count`)

// setUsage makes the help of a command and of those below it.
func setUsage(cmd *cobra.Command) {
	cobra.AddTemplateFunc("flagUsages", flagUsages)
	t := cmd.UsageTemplate()
	for _, flags := range []string{".LocalFlags", ".InheritedFlags"} {
		t = strings.ReplaceAll(t, flags+".FlagUsages", "flagUsages "+flags)
	}
	cmd.SetUsageTemplate(t)
}
