package xdp

import (
	"errors"
	"io/fs"
	"testing"
)

func TestKind(t *testing.T) {
	t.Parallel()
	err := Kind(ErrNoProgram, "look at %s: %w", "eth0", &fs.PathError{Op: "open", Path: "/x", Err: fs.ErrNotExist})
	if want := "look at eth0: open /x: file does not exist"; err.Error() != want {
		t.Errorf("text %q, want %q", err, want)
	}
	if !errors.Is(err, ErrNoProgram) {
		t.Error("it is not of its kind")
	}
	if errors.Is(err, ErrBusy) {
		t.Error("it is of another kind")
	}
	if !errors.Is(err, fs.ErrNotExist) {
		t.Error("errors.Is does not find what it wraps")
	}
	if path := (*fs.PathError)(nil); !errors.As(err, &path) {
		t.Error("errors.As does not find what it wraps")
	}
}
