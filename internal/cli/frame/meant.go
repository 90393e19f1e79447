package frame

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// otherCommands are commands of other tools, with the command line of xdpcap that does the same. IF
// is replaced by an interface, and FILES by the words that follow the command.
var otherCommands = map[string]string{
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

// otherFlags are flags of other tools, by name or letter, with what to do instead. A row is for
// commands that have the flag ifHas; "" = for all commands. The first matching row counts.
var otherFlags = []struct{ flag, ifHas, instead string }{
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

// InsteadOfFlag returns what to do instead of a flag that other tools have; "" for an unknown flag.
func InsteadOfFlag(cmd *cobra.Command, flag string) string {
	for _, row := range otherFlags {
		if row.flag == flag && (row.ifHas == "" || cmd.Flags().Lookup(row.ifHas) != nil) {
			return row.instead
		}
	}
	return ""
}

// unitsOfTime are words for units, with the unit in a flag's value.
var unitsOfTime = map[string]string{
	"s": "s", "sec": "s", "secs": "s", "second": "s", "seconds": "s",
	"m": "m", "min": "m", "mins": "m", "minute": "m", "minutes": "m", "h": "h", "hour": "h", "hours": "h",
}

// CheckCommand refuses arguments of the capture that are no filter, with a hint if the first one is
// an interface, the unit of --duration, or a command, perhaps misspelt or of another tool. text is
// the arguments with spaces between them.
func CheckCommand(root *cobra.Command, args []string, text string) error {
	if len(args) == 0 || isExpression(text) {
		return nil
	}
	word := args[0]
	if ifi, err := xdp.InterfaceByName(word); err == nil {
		return fmt.Errorf("%q is neither a command nor a filter: an interface is given as -i %s", word, ifi.Name)
	}
	if instead := otherCommands[word]; instead != "" {
		files := make([]string, 0, len(args))
		for _, arg := range args[1:] {
			files = append(files, message.ShellWord(arg))
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

// pages are pages of the documentation that people look up as help topics. No command has their
// names.
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

// didYouMean returns a question with the commands that a misspelt word may mean; "" if there is
// none. prefix is the command line before the word.
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
