package frame

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// Two processes have nothing in common: each prints to its own file, counts what it has printed,
// and ends by itself.
func TestProcesses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open := func(name string) (*Process, string) {
		path := filepath.Join(dir, name)
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return NewProcess(f, f), path
	}
	ended, endedPath := open("ended")
	other, otherPath := open("other")
	endedContext, err := ended.Begin(Guard{})
	if err != nil {
		t.Fatal(err)
	}
	otherContext, err := other.Begin(Guard{})
	if err != nil {
		t.Fatal(err)
	}
	ended.endContext()
	if endedContext.Err() == nil || otherContext.Err() != nil {
		t.Errorf("one process was ended: %v, and not the other: %v", endedContext.Err(), otherContext.Err())
	}
	fmt.Fprint(ended.Stdout, "packet")
	ended.CountTaken(func() int64 { return 100 })
	Say(other.Stderr, "message")
	for _, test := range []struct {
		of    *Process
		path  string
		text  string
		taken int64
	}{{ended, endedPath, "packet", 106}, {other, otherPath, "xdpcap: message\n", 0}} {
		text, err := os.ReadFile(test.path)
		if err != nil || string(text) != test.text {
			t.Errorf("%s has %q, want %q (%v)", test.path, text, test.text, err)
		}
		if n := test.of.bytesTaken(); n != test.taken {
			t.Errorf("%s: %d bytes were taken, want %d", test.path, n, test.taken)
		}
	}
}
