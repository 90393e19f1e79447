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
	testnet.SkipEmulated(t)
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	err := errors.Join(
		os.WriteFile(in("kept.pcapng"), []byte("kept"), 0o600),
		os.Link(in("kept.pcapng"), in("hard")),
		os.Symlink("kept.pcapng", in("soft")),
		os.Symlink("new.pcapng", in("dangling")),
		os.Symlink(dir, in("here")),
	)
	if err != nil {
		t.Fatal(err)
	}
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

// If a link makes a later file of a series the file of --json, the capture ends. Both files have
// their own contents.
func TestJSONConflictLater(t *testing.T) {
	t.Parallel()
	testnet.SkipEmulated(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	dir := t.TempDir()
	out, counts := filepath.Join(dir, "out"), filepath.Join(dir, "counts")
	if err := os.Symlink("counts", out+"1"); err != nil {
		t.Fatal(err)
	}
	p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", out, "-C", "100k", "--json="+counts)
	if _, err := testnet.MustGenerator(t, pair).Run(t.Context(), testnet.GeneratorOptions{Frame: testnet.UDPFrame(1000, 0), Count: 500}); err != nil {
		t.Fatal(err)
	}
	status, stderr := p.Wait()
	text, err := os.ReadFile(counts)
	if err != nil {
		t.Fatal(err)
	}
	s := systest.Account(t, string(text))
	if n := len(readSeriesFile(t, out).numbers); status != 1 || n == 0 || uint64(n) != s.Captured || !strings.Contains(stderr, "begin file 2 of the capture: lock "+out+"1: ") {
		t.Errorf("exit status %d: %s; %d packets in the file, summary %+v", status, stderr, n, s)
	}
}

// The commands of -z do not get the descriptor of --json, whose reader waits for its end.
func TestJSONDescriptorInherited(t *testing.T) {
	t.Parallel()
	testnet.SkipEmulated(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	script, out := filepath.Join(t.TempDir(), "descriptors"), systest.TempFile(t)
	said := out + ".descriptors" // where the sandbox lets files be made
	if err := os.WriteFile(script, []byte("#!/bin/sh\nls -l /proc/$$/fd/ >"+said+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", out, "-C", "1", "-z", script, "--json")
	systest.Account(t, p.Interrupt())
	text, err := os.ReadFile(said)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) == 0 || strings.Contains(string(text), " 3 -> pipe:") {
		t.Errorf("the command has the descriptor 3:\n%s", text)
	}
}
