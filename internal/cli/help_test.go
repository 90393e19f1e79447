package cli

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// helpOf is what xdpcap prints with these arguments.
func helpOf(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	root := NewRoot()
	root.SetOut(&out)
	root.SetArgs(args)
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// The expressions that the help of filters shows can be compiled, and its lines fit a terminal.
func TestHelpFilter(t *testing.T) {
	t.Parallel()
	testnet.SkipEmulated(t)
	text := helpOf(t, "help", "filter")
	shown := 0
	for line := range strings.Lines(text) {
		if len(line) > frame.UsageWidth+1 {
			t.Errorf("%d columns: %s", len(line), line)
		}
		expression, _, ok := strings.Cut(strings.TrimPrefix(line, "  "), "   ")
		if !ok || !strings.HasPrefix(line, "  ") {
			continue
		}
		shown++
		if _, err := filter.CompileRaw(expression, filter.Options{}); err != nil {
			t.Errorf("%s: %v", expression, err)
		}
	}
	if shown < 8 {
		t.Errorf("it shows %d expressions:\n%s", shown, text)
	}
	for _, says := range []string{"--vlan-aware", "inbound", "--filter-at exit", "first buffer"} {
		if !strings.Contains(text, says) {
			t.Errorf("it does not say what differs: %s", says)
		}
	}
}

// The capture's help has the notes about all commands. An unknown topic is an error, which names
// the one that was probably meant.
func TestHelp(t *testing.T) {
	t.Parallel()
	testnet.SkipEmulated(t)
	text := helpOf(t, "--help")
	for _, title := range []string{"What is sent", "Sizes and times", "JSON", "Signals", "Exit status", "Settings", "Flags of tcpdump, dumpcap and xdpdump"} {
		if strings.Count(text, "\n"+title+":\n") != 1 {
			t.Errorf("the help has no %q", title)
		}
	}
	if text := helpOf(t, "stats", "--help"); strings.Contains(text, "Signals:") {
		t.Error("the help of stats repeats what is about all commands")
	}
	if helpOf(t, "help", "stats") != helpOf(t, "stats", "--help") || helpOf(t, "help") != text {
		t.Error("help and --help differ")
	}
	for _, test := range []struct{ args, want string }{
		{"help statss", `there is no command "statss": did you mean xdpcap help stats?`},
		{"help nosuch", `there is no command "nosuch": see xdpcap --help`},
		{"moniter", `"moniter" is neither a command nor a filter: did you mean xdpcap monitor?`},
		{"lo", `"lo" is neither a command nor a filter: an interface is given as -i lo`},
	} {
		root := NewRoot()
		root.SetArgs(strings.Fields(test.args))
		if err := root.Execute(); err == nil || err.Error() != test.want {
			t.Errorf("%s: %v, want %s", test.args, err, test.want)
		}
	}
}

// -h fits a screen of 80 columns and 24 lines, and names only existing flags and commands. --help
// is longer.
func TestHelpBrief(t *testing.T) {
	t.Parallel()
	testnet.SkipEmulated(t)
	root := NewRoot()
	for _, cmd := range append(root.Commands(), root) {
		if !cmd.Runnable() || cmd.Name() == "completion" {
			continue
		}
		name := strings.TrimPrefix(strings.TrimPrefix(cmd.CommandPath(), "xdpcap"), " ")
		text := helpOf(t, append(strings.Fields(name), "-h")...)
		if n := strings.Count(text, "\n"); n > 24 || n == 0 {
			t.Errorf("%q: %d lines:\n%s", name, n, text)
		}
		for line := range strings.Lines(text) {
			if len(line) > 81 {
				t.Errorf("%q: %d columns: %s", name, len(line)-1, line)
			}
		}
		for _, flag := range regexp.MustCompile(` --[a-z-]+`).FindAllString(text, -1) {
			if flag = strings.TrimPrefix(flag, " --"); cmd.Flags().Lookup(flag) == nil && root.Flags().Lookup(flag) == nil && flag != "flows" && flag != "help" {
				t.Errorf("%q: there is no --%s", name, flag)
			}
		}
		if whole := helpOf(t, append(strings.Fields(name), "--help")...); whole == text || !strings.Contains(whole, "\nUsage:\n") {
			t.Errorf("%q: --help:\n%s", name, whole)
		}
	}
	text := helpOf(t, "-h")
	_, commands, _ := strings.Cut(text, "\nCommands:\n")
	commands, _, _ = strings.Cut(strings.TrimSpace(commands), "\n")
	var there []string
	for _, cmd := range root.Commands() {
		if cmd.Runnable() && !cmd.Hidden && cmd.Name() != "help" && cmd.Name() != "completion" {
			there = append(there, cmd.Name())
		}
	}
	if commands != strings.Join(there, " ") {
		t.Errorf("-h has the commands %s, and there are %s", commands, strings.Join(there, " "))
	}
}

// --json means the same for each command: its report.
func TestHelpJSON(t *testing.T) {
	t.Parallel()
	root := NewRoot()
	found := 0
	for _, cmd := range append(root.Commands(), root) {
		f := cmd.Flags().Lookup("json")
		if f == nil {
			continue
		}
		found++
		if !strings.Contains(f.Usage, "print the report as JSON: ") {
			t.Errorf("%s --json: %s", cmd.Name(), f.Usage)
		}
	}
	if found < 8 {
		t.Errorf("%d commands have --json", found)
	}
}
