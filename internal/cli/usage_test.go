package cli

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/xdpcap/xdpcap/internal/cli/capture"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
)

// The help shows each flag of a command once, in a group, and is not wider than a terminal. It
// shows no flag that takes no value as if it took one.
func TestUsage(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"", "stats", "count", "latency", "monitor", "bench", "interfaces", "probe", "man"} {
		var out bytes.Buffer
		cmd := NewRoot()
		cmd.SetOut(&out)
		cmd.SetArgs(append(strings.Fields(command), "--help"))
		if err := cmd.Execute(); err != nil {
			t.Fatal(err)
		}
		found, _, _ := cmd.Find(strings.Fields(command))
		flags, _, _ := strings.Cut(out.String(), "\n\n"+capture.PeerNote().Title)
		found.LocalFlags().VisitAll(func(f *pflag.Flag) {
			n, want := strings.Count(flags, " --"+f.Name+" ")+strings.Count(flags, " --"+f.Name+"["), 1
			if f.Hidden {
				want = 0
			}
			if n < want || want == 0 && n > 0 {
				t.Errorf("%s: the help has --%s %d times, want %d", command, f.Name, n, want)
			}
			if f.Annotations[frame.GroupKey] == nil && !f.Hidden && f.Name != "help" && f.Name != "version" {
				t.Errorf("%s: --%s stands in no group", command, f.Name)
			}
		})
		if found.Flags().Lookup("verbose") != nil && !strings.Contains(out.String(), "-v, --verbose    ") {
			t.Errorf("%s: -v looks as if it took a value:\n%s", command, out.String())
		}
		for line := range strings.Lines(out.String()) {
			if n := utf8.RuneCountInString(line); n > frame.UsageWidth+1 {
				t.Errorf("%s: %d columns: %s", command, n, line)
			}
		}
	}
}
