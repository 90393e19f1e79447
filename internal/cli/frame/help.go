package frame

import (
	"fmt"
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

// The output of -h fits a terminal of 80 columns and 24 lines.
const (
	briefColumns = 80
	briefLines   = 24
)

// BriefKey is the annotation with the text that -h prints for a command. For a command without it,
// -h prints its examples and the names of its flags.
const BriefKey = "brief"

// SetHelp lets -h print one screen, and --help everything, for a command and its subcommands.
func SetHelp(root *cobra.Command) {
	whole := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if cmd.Runnable() && slices.Contains(args, "-h") && !slices.Contains(args, "--help") {
			fmt.Fprint(cmd.OutOrStdout(), brief(cmd))
			return
		}
		if help := cmd.Flags().Lookup("help"); help != nil {
			help.Usage = "print the help: -h prints one screen, --help all of it"
		}
		width := Columns(cmd.OutOrStdout())
		cmd.Long, cmd.Example = Fold(cmd.Long, width, true), Fold(cmd.Example, width, false)
		annotate(cmd, usageNotes, Fold(cmd.Annotations[usageNotes], width, true))
		annotate(cmd, usageWidth, strconv.Itoa(width))
		whole(cmd, args)
	})
}

func brief(cmd *cobra.Command) string {
	if text, ok := cmd.Annotations[BriefKey]; ok {
		return text
	}
	var end strings.Builder
	if groups := FlagGroups(cmd.LocalFlags()); len(groups) > 0 {
		end.WriteString("\nFlags:\n")
		for _, g := range groups {
			end.WriteString(wrapNames(g.Title+":", g.Flags))
		}
	}
	end.WriteString("\n" + cmd.CommandPath() + " --help says what each does.\n")
	begin := cmd.Short + ".\n\nUsage:\n  " + cmd.UseLine() + "\n"
	const title = "\nExamples:\n"
	room := briefLines - 1 - strings.Count(begin+title+end.String(), "\n")
	if room < 1 {
		return begin + end.String()
	}
	return begin + title + firstExamples(cmd.Example, room) + end.String()
}

// firstExamples returns as many of the examples as fit into room lines. It omits lines that only
// explain the line before.
func firstExamples(examples string, room int) string {
	var text strings.Builder
	for line := range strings.Lines(examples) {
		line = strings.TrimSuffix(line, "\n")
		if room == 0 {
			break
		}
		if strings.HasPrefix(line, "     ") {
			continue
		}
		if len(line) > briefColumns {
			command, _, _ := strings.Cut(line[2:], "  ")
			line = "  " + command
		}
		text.WriteString(line + "\n")
		room--
	}
	return text.String()
}

// wrapNames lists the names of flags after a title, in lines that are indented.
func wrapNames(title string, flags *pflag.FlagSet) string {
	var text strings.Builder
	line := "  " + title
	flags.VisitAll(func(f *pflag.Flag) {
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + " " + name
		}
		if len(line)+len(name)+1 > briefColumns {
			text.WriteString(line + "\n")
			line = "   "
		}
		line += " " + name
	})
	return text.String() + line + "\n"
}
