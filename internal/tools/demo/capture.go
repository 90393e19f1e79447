package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// errReported is the error if xdpcap failed and has printed the reason on stderr itself.
var errReported = errors.New("xdpcap ended with an error")

// A capture is a running xdpcap.
type capture struct {
	cmd    *exec.Cmd
	stderr *testnet.Output
	ended  chan struct{} // closed once it has ended
	err    error         // how it ended
}

// startCapture starts xdpcap with the terminal's output, in a process group of its own: the
// terminal's Ctrl-C reaches only the demo, which then interrupts xdpcap. A second interrupt would
// kill it.
func startCapture(ns *testnet.Namespace, cmd *exec.Cmd) (*capture, error) {
	c := &capture{cmd: cmd, stderr: testnet.NewOutput("listening on", os.Stderr), ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = os.Stdout, c.stderr
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
	case <-c.stderr.Found:
		return true
	case <-c.ended:
	case <-ctx.Done():
	}
	return false
}

// stop interrupts xdpcap, unless it has ended, and returns how it ended.
func (c *capture) stop() error {
	// All sent packets are in the rings by now, and their reader reads them at least every 100 ms.
	// A capture with -c has that time to end by itself.
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
		return errReported
	}
	return fmt.Errorf("%s: %w", c.cmd.Path, c.err)
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
