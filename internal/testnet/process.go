package testnet

import (
	"io"
	"os/exec"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// A Process is a running program and its output. Its methods may be called concurrently.
type Process struct {
	Cmd   *exec.Cmd
	Ready chan struct{} // closed once the output has the awaited words
	Ended chan struct{} // closed once the program has ended
	Err   error         // of Cmd.Wait, once the program has ended

	awaited string
	copies  io.Writer // gets a copy of the output

	mu      sync.Mutex
	output  strings.Builder
	isReady bool
}

// StartProcess starts a program in a namespace. It keeps and copies the program's stderr, and its
// stdout if cmd has none. A process group of its own keeps the terminal's Ctrl-C from the program:
// the caller ends it.
func StartProcess(ns *Namespace, cmd *exec.Cmd, awaited string, copies io.Writer) (*Process, error) {
	p := &Process{Cmd: cmd, Ready: make(chan struct{}), Ended: make(chan struct{}), awaited: awaited, copies: copies}
	cmd.Stderr = p
	if cmd.Stdout == nil {
		cmd.Stdout = p
	}
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	if err := ns.Start(cmd); err != nil {
		return nil, err
	}
	go func() {
		p.Err = cmd.Wait()
		close(p.Ended)
	}()
	return p, nil
}

// Write takes the program's output.
func (p *Process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.output.Write(b)
	if !p.isReady && strings.Contains(p.output.String(), p.awaited) {
		p.isReady = true
		close(p.Ready)
	}
	return p.copies.Write(b)
}

// Output returns the output so far.
func (p *Process) Output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.String()
}
