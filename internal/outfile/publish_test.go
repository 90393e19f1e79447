package outfile

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Of two files, of which one will replace the other, the second is refused, and removed.
func TestRivals(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ first, second Options }{
		{Options{}, Options{Atomic: true}},
		{Options{Atomic: true}, Options{}},
		{Options{Atomic: true}, Options{Atomic: true}},
	} {
		path := filepath.Join(t.TempDir(), "out")
		first := mustOpen(t, path, test.first)
		first.Begin()
		_, err := Open(path, test.second)
		checkError(t, err, "another program is writing to")
		if all, _ := filepath.Glob(path + "*"); len(all) != 1 {
			t.Errorf("first %+v, second %+v: files %v", test.first, test.second, all)
		}
		if err := errors.Join(first.Publish(), first.Close()); err != nil {
			t.Error(err)
		}
		mustOpen(t, path, test.second)
	}
}

// With New no existing file is replaced, not even a file that was made while this one was written.
func TestNew(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "out")
	for _, there := range []string{path, path + Partial} {
		mustWrite(t, there, "earlier")
		_, err := Open(path, Options{New: true, Atomic: true})
		if checkError(t, err, "open "+there+": a file of this name already exists"); !errors.Is(err, ErrNameTaken) {
			t.Errorf("no ErrNameTaken: %v", err)
		}
		if got := content(t, there); got != "earlier" {
			t.Errorf("%s has %q", there, got)
		}
		os.Remove(there)
	}
	f := mustOpen(t, path, Options{New: true, Atomic: true})
	f.Begin()
	mustWrite(t, path, "meanwhile")
	checkError(t, f.rename(), "file exists")
	checkError(t, f.Publish(), "a file of this name already exists")
	if got := content(t, path); got != "meanwhile" {
		t.Errorf("the file has %q", got)
	}
}

// If the file must be regular, a FIFO without a reader is refused without waiting.
func TestRegular(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "out")
	must(t, unix.Mkfifo(path, 0o600))
	_, err := Open(path, Options{Regular: true})
	checkError(t, err, "open "+path+": it is not a regular file")
	if _, err := Open(path, Options{}); !errors.Is(err, ErrNoReader) {
		t.Errorf("no ErrNoReader: %v", err)
	}
	reader, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	must(t, err)
	defer reader.Close()
	_, err = Open(path, Options{Regular: true})
	checkError(t, err, "open "+path+": it is not a regular file")
}
