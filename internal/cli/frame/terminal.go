package frame

import (
	"os"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// A Terminal is one that this process may draw on as long as its job is in the foreground.
type Terminal struct{ file *os.File }

// NewTerminal returns nil if the file is not a terminal.
func NewTerminal(f *os.File) *Terminal {
	if !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return &Terminal{f}
}

// processGroup is this process's job. A shell sets it before the program begins, and the sandbox
// does not let it be asked for later.
var processGroup = unix.Getpgrp()

// IsOurs tells whether the process may draw now: its job is in the foreground of the terminal, or
// the terminal is not the one that controls the process, so that no shell prompts there.
func (t *Terminal) IsOurs() bool {
	group, err := unix.IoctlGetInt(int(t.file.Fd()), unix.TIOCGPGRP)
	return err != nil || group == processGroup
}
