package message

import (
	"errors"
	"io/fs"
	"testing"
)

var errNoProgram, errBusy = errors.New("no program"), errors.New("busy")

func TestErrorf(t *testing.T) {
	t.Parallel()
	err := Errorf(errNoProgram, "look at %s: %w", "eth0", &fs.PathError{Op: "open", Path: "/x", Err: fs.ErrNotExist})
	if want := "look at eth0: open /x: file does not exist"; err.Error() != want {
		t.Errorf("text %q, want %q", err, want)
	}
	if !errors.Is(err, errNoProgram) {
		t.Error("it is not of its kind")
	}
	if errors.Is(err, errBusy) {
		t.Error("it is of another kind")
	}
	if !errors.Is(err, fs.ErrNotExist) {
		t.Error("errors.Is does not find what it wraps")
	}
	if path := (*fs.PathError)(nil); !errors.As(err, &path) {
		t.Error("errors.As does not find what it wraps")
	}
}
