package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// errSaid is the error if xdpcap failed and has printed the reason on stderr itself.
var errSaid = errors.New("xdpcap ended with an error")

// A capture is a running xdpcap.
type capture struct {
	cmd       *exec.Cmd
	listening chan struct{} // closed once xdpcap captures
	ended     chan struct{} // closed once it has ended
	err       error         // how it ended
}

// startCapture starts xdpcap with the terminal's output, in a process group of its own: the
// terminal's Ctrl-C reaches only the demo, which then interrupts xdpcap. A second interrupt would
// kill it.
func startCapture(ns *testnet.Namespace, cmd *exec.Cmd) (*capture, error) {
	c := &capture{cmd: cmd, listening: make(chan struct{}), ended: make(chan struct{})}
	cmd.Stdout = os.Stdout
	cmd.Stderr = &lineWatch{out: os.Stderr, word: []byte("listening on"), found: c.listening}
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	if err := ns.Start(cmd); err != nil {
		return nil, fmt.Errorf("start xdpcap: %w", err)
	}
	go func() {
		c.err = cmd.Wait()
		close(c.ended)
	}()
	return c, nil
}

// waitListening waits until xdpcap captures, and returns false if it will not.
func (c *capture) waitListening(ctx context.Context) bool {
	select {
	case <-c.listening:
		return true
	case <-c.ended:
	case <-ctx.Done():
	}
	return false
}

// stop interrupts xdpcap, unless it has ended, and returns how it ended.
func (c *capture) stop() error {
	// All that was sent is in the rings by now, and their reader looks at them at least every 100
	// ms. A capture with -c has that time to end by itself.
	select {
	case <-c.ended:
	case <-time.After(200 * time.Millisecond):
		c.cmd.Process.Signal(os.Interrupt) // fails if it has just ended
		<-c.ended
	}
	switch {
	case c.err == nil:
		return nil
	case c.cmd.ProcessState.Exited():
		return errSaid
	}
	return fmt.Errorf("%s: %w", c.cmd.Path, c.err)
}

// lineWatch copies its input to out, and closes found after the first line that contains word.
type lineWatch struct {
	out   io.Writer
	word  []byte
	found chan struct{}
	line  []byte // the incomplete last line; unused once found is closed
	done  bool
}

func (w *lineWatch) Write(p []byte) (int, error) {
	for _, b := range p {
		if w.done {
			break
		}
		if w.line = append(w.line, b); b != '\n' {
			continue
		}
		if w.done = bytes.Contains(w.line, w.word); w.done {
			close(w.found)
		}
		w.line = w.line[:0]
	}
	return w.out.Write(p)
}

// giveBack makes the user who ran sudo the owner of the file. For a symbolic link it changes the
// link itself, not its target.
func giveBack(file string) error {
	uid, err := strconv.Atoi(os.Getenv("SUDO_UID"))
	if err != nil {
		return nil // not started by sudo
	}
	gid, err := strconv.Atoi(os.Getenv("SUDO_GID"))
	if err != nil {
		return nil
	}
	return os.Lchown(file, uid, gid)
}
