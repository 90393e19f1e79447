package files_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// The file of --json must not be a file of the capture, by any path. Its contents stay unchanged.
func TestJSONConflict(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	err := errors.Join(
		os.WriteFile(in("kept.pcapng"), []byte("kept"), 0o600),
		os.Link(in("kept.pcapng"), in("hard")),
		os.Symlink("kept.pcapng", in("soft")),
		os.Symlink("new.pcapng", in("dangling")),
		os.Symlink(dir, in("here")),
	)
	testnet.Must(t, err)
	for _, test := range []struct {
		args     string
		conflict bool
	}{
		{"-w kept.pcapng --json=kept.pcapng", true},
		{"-w kept.pcapng --json=./kept.pcapng", true},
		{"-w kept.pcapng --json=" + in("kept.pcapng"), true},
		{"-w kept.pcapng --json=here/kept.pcapng", true},
		{"-w kept.pcapng --json=hard", true},
		{"-w soft --json=kept.pcapng", true},
		{"-w new.pcapng --json=new.pcapng", true},
		{"-w new.pcapng --json=here/new.pcapng", true},
		{"-w new.pcapng --json=dangling", true},
		{"-w other.pcapng -w new.pcapng --json=new.pcapng", true},
		{"-w new.pcapng -C 1 --json=new.pcapng", true},
		{"-w new.pcapng -C 1 -W 20 --json=new.pcapng00", true},
		{"-w new.pcapng -C 1 -W 20 --json=here/new.pcapng07", true},
		{"-w new.pcapng -C 1 --json=dangling1", false},
		{"-w dangling -C 1 --json=new.pcapng1", true},
		{"-w new.pcapng.gz -C 1 --atomic --json=new.pcapng12.gz.partial", true},
		{"-w new.pcapng -b filesize:100 --json=new_00002_20261122130501.pcapng", true},
		{"-w new.pcapng -b filesize:100 --json=new_2.pcapng", false},
		{"-w new.pcapng --atomic --json=new.pcapng", true},
		{"-w new.pcapng --atomic --json=new.pcapng.partial", true},
		{"--no-such-flag -w kept.pcapng --json=kept.pcapng", true},
		{"-C x --json=kept.pcapng -W 2 -nw kept.pcapng", true},
		{"-s x -w new.pcapng -C 1 --json=new.pcapng1", true},

		{"-w new.pcapng --json=hard", false},
		{"-w new.pcapng --json=new.json", false},
		{"-w /dev/null --json=/dev/null", false},
		{"-w sflow://127.0.0.1 --json=new.json", false},
	} {
		cmd := systest.Command(append([]string{"-i", "none0"}, strings.Fields(test.args)...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		refused := strings.Contains(string(out), "would write to the same file: choose another one for the counts\n")
		if err == nil || refused != test.conflict {
			t.Errorf("%s: %v: %s", test.args, err, out)
		}
		if test.conflict {
			if text, err := os.ReadFile(in("kept.pcapng")); err != nil || string(text) != "kept" {
				t.Fatalf("%s: the file has %q, %v", test.args, text, err)
			}
		}
		os.Remove(in("new.json"))
		os.Remove(in("new.pcapng"))
	}
}
