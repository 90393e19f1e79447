package cli

import (
	"bytes"
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

// The capture's help also says what is about all commands, and a topic that there is not is an
// error which says what was meant.
func TestHelp(t *testing.T) {
	testnet.SkipEmulated(t)
	text := helpOf(t, "--help")
	for _, title := range []string{"What is sent", "Sizes and times", "Signals", "Exit status", "Settings", "Flags of tcpdump, dumpcap and xdpdump"} {
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
