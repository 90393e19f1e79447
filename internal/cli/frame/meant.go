package frame

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/internal/escape"
	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// elsewhere are words that people type as a command, because other tools have it, and what to say
// instead. IF stands for the interface, and FILES for the words that follow.
var elsewhere = map[string]string{
	"version": "xdpcap --version",
	"list":    "xdpcap interfaces",
	"capture": "xdpcap -i IF", "dump": "xdpcap -i IF", "sniff": "xdpcap -i IF",
	"record": "xdpcap -i IF -w out.pcapng", "write": "xdpcap -i IF -w out.pcapng",
	"serve": "xdpcap -i IF --serve :19000", "stream": "xdpcap -i IF --serve :19000",
	"trace":   "xdpcap -i IF --rx-capture entry,exit for the XDP program that runs there, or xdpcap drops -i IF for lost packets",
	"flows":   "xdpcap count -i IF --flows 10, or xdpcap top -i IF",
	"metrics": "xdpcap -i IF --account --listen :9432, which Prometheus reads",
	"merge":   "xdpcap read -w out.pcapng FILES", "convert": "xdpcap read -w out.pcapng FILES",
	"info": "xdpcap read --stats FILES", "anonymize": "xdpcap read --anonymize KEY -w out.pcapng FILES",
	"print": "xdpcap read FILES", "follow": "xdpcap read --follow FILES",
}

// flagsElsewhere are flags that other tools have, by name or letter, and what to say instead where
// a command has the flag that is named, or any command if that is "". The first row counts.
var flagsElsewhere = []struct{ flag, has, instead string }{
	{"since", "from", "say --from"}, {"start", "from", "say --from"},
	{"until", "to", "say --to"}, {"end", "to", "say --to"},
	{"since", "", "xdpcap read --from chooses a file's packets by their time"},
	{"start", "", "xdpcap read --from chooses a file's packets by their time"},
	{"until", "", "xdpcap read --to chooses a file's packets by their time; --duration ends a command"},
	{"end", "", "xdpcap read --to chooses a file's packets by their time; --duration ends a command"},
	{"from", "", "xdpcap read --from chooses a file's packets by their time"},
	{"to", "", "xdpcap read --to chooses a file's packets by their time; --duration ends a command"},
	{"histogram", "kernel-stats", "it is always printed: omit it"},
	{"histogram", "", "xdpcap latency prints one of run times"},
	{"w", "retransmits", "xdpcap -i eth0 --drops -w lost.pcapng has the packets"},
	{"Y", "", "display filters are Wireshark's: see xdpcap help filter"},
}

// InsteadOfFlag is what to do instead of a flag that a command does not have, but other tools do;
// "" = nothing is known.
func InsteadOfFlag(cmd *cobra.Command, flag string) string {
	for _, row := range flagsElsewhere {
		if row.flag == flag && (row.has == "" || cmd.Flags().Lookup(row.has) != nil) {
			return row.instead
		}
	}
	return ""
}

// unitsOfTime are words for which a flag that takes a time has a letter.
var unitsOfTime = map[string]string{
	"s": "s", "sec": "s", "secs": "s", "second": "s", "seconds": "s",
	"m": "m", "min": "m", "mins": "m", "minute": "m", "minutes": "m", "h": "h", "hour": "h", "hours": "h",
}

// CheckCommand refuses words that would be taken for a filter, and are none, if they were probably
// meant as something else: a command, perhaps misspelt or of another tool, an interface, or the
// unit of --duration.
func CheckCommand(root *cobra.Command, args []string, text string) error {
	if len(args) == 0 || isExpression(text) {
		return nil
	}
	word := args[0]
	if ifi, err := xdp.InterfaceByName(word); err == nil {
		return fmt.Errorf("%q is neither a command nor a filter: an interface is given as -i %s", word, ifi.Name)
	}
	if instead := elsewhere[word]; instead != "" {
		files := make([]string, 0, len(args))
		for _, arg := range args[1:] {
			files = append(files, escape.ShellWord(arg))
		}
		if len(files) == 0 {
			files = []string{"out.pcapng"}
		}
		replaced := strings.NewReplacer("IF", interfaceOf(root), "FILES", strings.Join(files, " ")).Replace(instead)
		return fmt.Errorf("there is no command %q: say %s", word, replaced)
	}
	if unit := unitsOfTime[word]; unit != "" && root.Flags().Changed("duration") {
		if d, err := time.ParseDuration(root.Flags().Lookup("duration").Value.String()); err == nil {
			return fmt.Errorf("--duration %v %s: a time is one word: --duration %v%s", d.Seconds(), word, d.Seconds(), unit)
		}
	}
	if meant := didYouMean(root, "xdpcap", word); meant != "" && !filter.IsKeyword(word) { // tcp is not top
		return fmt.Errorf("%q is neither a command nor a filter%s", word, meant)
	}
	return nil
}

// pages are those of the documentation that people look up as help topics, because no command has
// their name.
var pages = []string{"files", "json", "kubernetes", "limits", "metrics", "privileges", "recorder", "streams", "tracing", "wireshark"}

// UnknownCommand is the error of help and man for a word that is no command.
func UnknownCommand(cmd *cobra.Command, word string) error {
	if slices.Contains(pages, word) {
		return fmt.Errorf("there is no command %q: see docs/%s.md, and xdpcap --help", word, word)
	}
	if meant := didYouMean(cmd.Root(), cmd.CommandPath(), word); meant != "" {
		return fmt.Errorf("there is no command %q%s", word, meant)
	}
	return fmt.Errorf("there is no command %q: see xdpcap --help", word)
}

// didYouMean asks for the commands that a misspelt word may mean; "" if there is none. prefix is
// what is typed before a command.
func didYouMean(root *cobra.Command, prefix, word string) string {
	var names []string
	for _, c := range root.Commands() {
		if slices.Contains(c.SuggestFor, word) {
			return ": did you mean " + prefix + " " + c.Name() + "?"
		}
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return message.DidYouMean(prefix+" ", word, names)
}
