package commandline_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// Without a tag, the version is the newest one with a number in CHANGELOG.md, even if newer changes
// have a heading without a number.
func TestVersionOfChanges(t *testing.T) {
	t.Parallel()
	testnet.SkipEmulated(t)
	script, err := os.ReadFile("../../../packaging/version.sh")
	if err != nil {
		t.Fatal(err)
	}
	for headings, want := range map[string]string{
		"## 0.1.0 (2026-11-22)\n":                                    "0.1.0-dev\n",
		"## 0.2.0\n\n## 0.1.0 (2026-11-22)\n":                        "0.2.0-dev\n",
		"## Unreleased\n\n- More.\n\n## 0.1.0 (2026-11-22)\n- All\n": "0.1.0-dev\n",
	} {
		tree := t.TempDir()
		for name, text := range map[string]string{"packaging/version.sh": string(script), "CHANGELOG.md": "# Changes\n\n" + headings} {
			path := filepath.Join(tree, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command(filepath.Join(tree, "packaging/version.sh"))
		cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(tree)) // no repository above
		if got, err := cmd.Output(); err != nil || string(got) != want {
			t.Errorf("%q: the version is %q, %v; want %q", headings, got, err, want)
		}
	}
}
