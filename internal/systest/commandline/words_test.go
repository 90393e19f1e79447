package commandline_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// Shell completions of flags and commands contain no markup of the help.
func TestCompletionDescriptions(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"__complete", "--"}, {"__complete", "count", "--"}, {"__complete", "read", "--"}, {"__complete", ""}} {
		out, err := systest.Command(args...).Output()
		if err != nil || bytes.Contains(out, []byte("`")) || bytes.Count(out, []byte("\t")) < 5 {
			t.Errorf("%q: %v: %s", args, err, out)
		}
	}
}

// An interface whose name a shell would parse as a command is not offered, because a container
// chooses the names of its interfaces.
func TestCompletionIsTypable(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{RxName: "`id`a"})
	out := systest.RunInside(t, pair.Rx, systest.Command("__complete", "probe", "-i", ""))
	if strings.Contains(out, "`") || !strings.HasPrefix(out, "lo\n") {
		t.Errorf("%q", out)
	}
}

// A file has the command line in its comment, except with --no-command-line.
func TestNoCommandLine(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	for _, flag := range []string{"--no-command-line", "--no-command-line=false"} {
		file, err := systest.RunIn(t, pair.Rx, systest.Command("-i", pair.RxName, "-w", "-", "--duration", "1ms", "-q", flag))
		if has, want := strings.Contains(file, "-w - --duration"), flag != "--no-command-line"; has != want || file == "" || err != nil {
			t.Errorf("%s: %d bytes, with the command line: %t, %v", flag, len(file), has, err)
		}
	}
}

// Without a tag, the version is the newest one with a number in CHANGELOG.md, even if newer changes
// have a heading without a number.
func TestVersionOfChanges(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile("../../../packaging/version.sh")
	testnet.Must(t, err)
	for headings, want := range map[string]string{
		"## 0.1.0 (2026-11-22)\n":                                    "0.1.0-dev\n",
		"## 0.2.0\n\n## 0.1.0 (2026-11-22)\n":                        "0.2.0-dev\n",
		"## Unreleased\n\n- More.\n\n## 0.1.0 (2026-11-22)\n- All\n": "0.1.0-dev\n",
	} {
		tree := t.TempDir()
		for name, text := range map[string]string{"packaging/version.sh": string(script), "CHANGELOG.md": "# Changes\n\n" + headings} {
			path := filepath.Join(tree, name)
			testnet.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
			testnet.Must(t, os.WriteFile(path, []byte(text), 0o755))
		}
		cmd := exec.Command(filepath.Join(tree, "packaging/version.sh"))
		cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(tree)) // no repository above
		if got, err := cmd.Output(); err != nil || string(got) != want {
			t.Errorf("%q: the version is %q, %v; want %q", headings, got, err, want)
		}
	}
}

// The help of every command fits a terminal of 100 columns.
func TestHelpFits(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "stats", "count", "replay", "monitor", "latency", "interfaces", "probe"} {
		out, err := systest.Command(strings.Fields(name + " --help")...).Output()
		if err != nil || !bytes.Contains(out, []byte("Examples:")) {
			t.Errorf("%s: %v, no examples in\n%s", name, err, out)
		}
		for line := range strings.Lines(string(out)) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 100 {
				t.Errorf("%s: %d columns: %s", name, n, line)
			}
		}
	}
}
