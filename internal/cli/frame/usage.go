package frame

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A Note is a section of the capture's help and of manual pages that is not about one flag.
type Note struct{ Title, Text string }

// A flagGroup is the flags that the help shows below a title.
type flagGroup struct {
	Title string
	Flags *pflag.FlagSet
}

// FlagGroups returns the flags that are not hidden, by group. Flags that cobra adds have no group,
// and are the last.
func FlagGroups(all *pflag.FlagSet) (groups []flagGroup) {
	all.VisitAll(func(flag *pflag.Flag) {
		if flag.Hidden {
			return
		}
		title := slices.Concat(flag.Annotations[GroupKey], []string{"Other"})[0]
		i := slices.IndexFunc(groups, func(g flagGroup) bool { return g.Title == title })
		if i < 0 {
			i = len(groups)
			f := pflag.NewFlagSet(title, pflag.ContinueOnError)
			f.SortFlags = false
			groups = append(groups, flagGroup{title, f})
		}
		groups[i].Flags.AddFlag(flag)
	})
	return groups
}

// flagUsages lists flags for the help, below the titles of their groups. width has the columns.
func flagUsages(all *pflag.FlagSet, width string) string {
	columns, err := strconv.Atoi(width)
	if err != nil {
		columns = briefColumns
	}
	var b strings.Builder
	groups := FlagGroups(all)
	for _, g := range groups {
		if len(groups) > 1 {
			b.WriteString("\n " + g.Title + ":\n")
		}
		b.WriteString(g.Flags.FlagUsagesWrapped(columns))
	}
	// pflag shows a type for a flag that only counts how often it is given, as if it took a value.
	return countingFlag.ReplaceAllString(b.String(), "$1      ")
}

var countingFlag = regexp.MustCompile(`(?m)^(\s+-\w, --[\w-]+) count`)

// cobra keeps template functions in a global variable, so they are added once for all commands.
func init() { cobra.AddTemplateFunc("flagUsages", flagUsages) }

// Annotations of a command: the notes at the end of its help, and the columns of the help.
const usageNotes, usageWidth = "usageNotes", "usageWidth"

// annotate sets an annotation of a command.
func annotate(cmd *cobra.Command, key, value string) {
	if cmd.Annotations == nil {
		cmd.Annotations = make(map[string]string)
	}
	cmd.Annotations[key] = value
}

// SetUsage groups the flags in the help of a command and of its subcommands. The command's own help
// ends with notes.
func SetUsage(cmd *cobra.Command, notes string) {
	annotate(cmd, usageNotes, notes)
	t := cmd.UsageTemplate()
	for _, flags := range []string{".LocalFlags", ".InheritedFlags"} {
		t = strings.ReplaceAll(t, flags+".FlagUsages", "flagUsages "+flags+` (index .Annotations "`+usageWidth+`")`)
	}
	const end = "{{if .HasHelpSubCommands}}"
	t = strings.Replace(t, end, `{{index .Annotations "`+usageNotes+`"}}`+end, 1)
	cmd.SetUsageTemplate(t)
}
