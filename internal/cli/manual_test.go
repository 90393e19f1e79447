package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
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

// Every command has a manual page, alone and where man(1) finds it, that groff formats without a
// warning, and that has all of its flags as they are typed, but for those that only Wireshark
// types.
func TestManual(t *testing.T) {
	t.Parallel()
	root := NewRoot()
	pages := writtenPages(t)
	if want := len(root.Commands()); len(pages) != want { // one for xdpcap, none for completion
		t.Errorf("%d pages, want %d", len(pages), want)
	}
	for file, text := range pages {
		name, section, _ := strings.Cut(file, ".")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			of := strings.Split(name, "-")[1:]
			cmd, _, _ := root.Find(of)
			if helpOf(t, append([]string{"man"}, of...)...) != string(text) {
				t.Error("without --dir man prints something else")
			}
			shown, warnings := formatted(t, text)
			if warnings != "" {
				t.Error(warnings)
			}
			cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
				isPeer := func(p frame.Flag) bool { return f.Name == p.Name }
				if f.Hidden && (cmd.HasParent() || !slices.ContainsFunc(append(frame.PeerFlags(true), frame.PeerFlags(false)...), isPeer)) {
					return // of extcap, for Wireshark alone, or one that only read refuses
				}
				name := " --" + f.Name
				if len(f.Name) == 1 { // a flag of another tool that has only a letter
					name = " -" + f.Name
				}
				if !strings.Contains(shown, name) {
					t.Errorf("%s does not stand there", name)
				}
			})
			// What is preformatted is as wide as the help, and indented.
			checkWidth(t, shown, frame.UsageWidth+6)
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
