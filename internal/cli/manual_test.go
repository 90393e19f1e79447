package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/xdpcap/xdpcap/internal/cli/capture"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/testdoc"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// writtenPages are all pages as man --dir writes them, by the names of their files.
func writtenPages(t *testing.T) map[string][]byte {
	t.Helper()
	dir := t.TempDir()
	if out := helpOf(t, "man", "--dir", dir); out != "" {
		t.Errorf("with --dir it prints %q", out)
	}
	paths, err := filepath.Glob(filepath.Join(dir, "man?", "*"))
	if err != nil {
		t.Fatal(err)
	}
	pages := make(map[string][]byte)
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil || info.Mode() != 0o644 || !strings.HasSuffix(filepath.Dir(path), strings.TrimPrefix(filepath.Ext(path), ".")) {
			t.Errorf("%s: %v, %v", path, info, err)
		}
		if pages[filepath.Base(path)], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	return pages
}

// Every command has a manual page that groff formats without a warning, and that has all of its
// flags as they are typed, but for those that only Wireshark types.
func TestManual(t *testing.T) {
	t.Parallel()
	testnet.SkipEmulated(t)
	root := NewRoot()
	pages := writtenPages(t)
	if want := len(root.Commands()); len(pages) != want { // one for xdpcap, none for completion
		t.Errorf("%d pages, want %d", len(pages), want)
	}
	for file, text := range pages {
		name, section, _ := strings.Cut(file, ".")
		t.Run(name, func(t *testing.T) {
			cmd := root
			if of, ok := strings.CutPrefix(name, "xdpcap-"); ok {
				cmd, _, _ = root.Find([]string{of})
			}
			shown, warnings := testdoc.Formatted(t, text)
			if warnings != "" {
				t.Error(warnings)
			}
			cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
				isPeer := func(p frame.PeerFlag) bool { return f.Name == p.Name || f.Name == p.Letter }
				if f.Hidden && !slices.ContainsFunc(capture.Peers(), isPeer) {
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
			if says := strings.Contains(shown, "cuts it into segments"); says == cmd.HasParent() {
				t.Errorf("says what a capture sees of what is sent: %v", says)
			}
			// What is preformatted is as wide as the help.
			for line := range strings.Lines(shown) {
				if len(line) > frame.UsageWidth+len("       ") {
					t.Errorf("%d columns: %s", len(line), line)
				}
			}
			want := []string{name + " - ", "SEE ALSO"}
			if section == "8" {
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
	t.Parallel()
	testnet.SkipEmulated(t)
	if text := helpOf(t, "man", "stats"); !strings.HasPrefix(text, `.TH "XDPCAP\-STATS" "8"`) {
		t.Errorf("it begins with %.100s", text)
	}
	if text := helpOf(t, "man"); !strings.HasPrefix(text, `.TH "XDPCAP" "8"`) {
		t.Errorf("it begins with %.100s", text)
	}
	pages := writtenPages(t)
	for _, name := range []string{"xdpcap.8", "xdpcap-latency.8", "xdpcap-filter.7"} {
		if len(pages[name]) < 1000 {
			t.Errorf("%s: %d bytes", name, len(pages[name]))
		}
	}
	root := NewRoot()
	root.SetArgs([]string{"man", "statss"})
	want := `there is no command "statss": did you mean xdpcap man stats?`
	if err := root.Execute(); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
