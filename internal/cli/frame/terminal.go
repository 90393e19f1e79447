package frame

import (
	"os"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// A Terminal is a terminal on which this process may draw as long as its job is in the foreground.
type Terminal struct{ file *os.File }

// NewTerminal returns nil if the file is nil or not a terminal.
func NewTerminal(f *os.File) *Terminal {
	if f == nil || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return &Terminal{f}
}

// processGroup is this process's job. A shell sets it before the program begins, and in the sandbox
// the process can no longer ask for it.
var processGroup = unix.Getpgrp()

// IsOurs says whether the process may draw now: its job is in the foreground of the terminal, or no
// shell prompts there, because the terminal does not control the process.
func (t *Terminal) IsOurs() bool {
	group, err := unix.IoctlGetInt(int(t.file.Fd()), unix.TIOCGPGRP)
	return err != nil || group == processGroup
}
