package cli

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// formatted is a manual page as a terminal shows it, and what groff warns of.
func formatted(t *testing.T, text []byte) (shown, warnings string) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.Command("groff", "-man", "-Tascii", "-ww", "-P-cbou", "-rLL=100n")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(text), &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	return out.String(), errs.String()
}

// Every command has a manual page that groff formats without a warning, and that has all of its
// flags as they are typed, but for those that only Wireshark types.
func TestManual(t *testing.T) {
	testnet.SkipEmulated(t)
	testnet.Require(t, "groff")
	root := newRoot()
	pages := manual(root)
	if want := len(root.Commands()); len(pages) != want { // one for xdpcap, none for completion
		t.Errorf("%d pages, want %d", len(pages), want)
	}
	for _, p := range pages {
		t.Run(p.name, func(t *testing.T) {
			shown, warnings := formatted(t, p.text())
			if warnings != "" {
				t.Error(warnings)
			}
			p.cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
				if _, peers := f.Value.(*peerFlag); f.Hidden && !peers {
					return // of extcap, for Wireshark alone
				}
				name := " --" + f.Name
				if len(f.Name) == 1 { // a flag of another tool that has only a letter
					name = " -" + f.Name
				}
				if strings.Count(shown, name) == 0 {
					t.Errorf("%s does not stand there", name)
				}
			})
			if says := strings.Contains(shown, "cuts it into segments"); says == p.cmd.HasParent() {
				t.Errorf("says what a capture sees of what is sent: %v", says)
			}
			// What is preformatted is as wide as the help.
			for line := range strings.Lines(shown) {
				if len(line) > frame.UsageWidth+len("       ") {
					t.Errorf("%d columns: %s", len(line), line)
				}
			}
			want := []string{p.name + " - ", "SEE ALSO"}
			if p.section == 8 {
				want = append(want, "SIGNALS", "EXIT STATUS", "EXAMPLES", "xdpcap")
			}
			for _, w := range want {
				if !strings.Contains(shown, w) {
					t.Errorf("it has no %q:\n%s", w, shown)
				}
			}
		})
	}
}

// man prints one page, and writes all to where man(1) finds them.
func TestManCommand(t *testing.T) {
	testnet.SkipEmulated(t)
	if text := helpOf(t, "man", "stats"); !strings.HasPrefix(text, `.TH "XDPCAP\-STATS" "8"`) {
		t.Errorf("it begins with %.100s", text)
	}
	if text := helpOf(t, "man"); !strings.HasPrefix(text, `.TH "XDPCAP" "8"`) {
		t.Errorf("it begins with %.100s", text)
	}
	dir := t.TempDir()
	if out := helpOf(t, "man", "--dir", dir); out != "" {
		t.Errorf("with --dir it prints %q", out)
	}
	for _, name := range []string{"man8/xdpcap.8", "man8/xdpcap-latency.8", "man7/xdpcap-filter.7"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() < 1000 || info.Mode() != 0o644 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if all, _ := filepath.Glob(filepath.Join(dir, "*", "*")); len(all) != len(manual(newRoot())) {
		t.Errorf("it writes %v", all)
	}
	root := newRoot()
	root.SetArgs([]string{"man", "statss"})
	want := `there is no command "statss": did you mean xdpcap man stats?`
	if err := root.Execute(); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// Text that has a meaning in roff is shown as it stands.
func TestRoff(t *testing.T) {
	testnet.SkipEmulated(t)
	testnet.Require(t, "groff")
	var r roff
	r.macro("TH", "X", "8")
	r.macro("SH", "X")
	lines := []string{`.dot \n(xx "quoted" it's a --flag`, "'apostrophe ~ ^ `accents`"}
	for _, line := range lines {
		r.line(line)
		r.macro("PP")
	}
	shown, warnings := formatted(t, r.Bytes())
	for _, line := range lines {
		if !strings.Contains(shown, line) {
			t.Errorf("no %q in %s%s", line, shown, warnings)
		}
	}
}
