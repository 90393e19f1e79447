package extcap

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/capture/file"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/outfile"
	"github.com/xdpcap/xdpcap/internal/support"
)

// capture runs the capture of an interface until Wireshark closes the fifo or sends SIGTERM. When
// the capture has ended, Wireshark shows everything on stderr as an error, so only errors and
// losses are printed there.
func (o *Options) capture(run func() error, ifname string) error {
	if o.Fifo == "" {
		return errors.New("--capture: --fifo is missing, the fifo that Wireshark reads packets from")
	}
	var others []error
	for _, err := range frame.Joined(run()) {
		if err != nil && !errors.Is(err, unix.EPIPE) { // EPIPE is the normal end: Wireshark has closed the fifo
			others = append(others, explain(err, ifname))
		}
	}
	return errors.Join(others...)
}

// explain adds to an error about privileges how xdpcap gets them when Wireshark runs it.
func explain(err error, ifname string) error {
	if !errors.Is(err, support.ErrPrivileges) {
		return err
	}
	path, failed := os.Executable()
	if failed != nil {
		path = "xdpcap"
	}
	return fmt.Errorf("%w; Wireshark runs xdpcap as you: as with dumpcap, give the privileges to a group, "+
		"with sudo chgrp wireshark %[2]s, sudo chmod 750 %[2]s, and that setcap; or capture as root and read from a pipe: "+
		"sudo xdpcap -i %[3]s -w - | wireshark -k -i -", err, message.ShellWord(path), message.ShellWord(ifname))
}

// fifoPatience is the time that Wireshark has to open its fifo for reading.
const fifoPatience = 30 * time.Second

// OpenFifo opens the fifo, for which it waits until Wireshark has opened it for reading. It creates
// no file. The end of the context ends the wait.
func (o *Options) OpenFifo(ctx context.Context, w file.Options, by *frame.Sandbox) (*file.File, error) {
	path := o.Fifo
	w.Name = path
	for deadline := time.Now().Add(fifoPatience); ; {
		var f *os.File
		err := by.Opener().Open(path, func(t outfile.Trust) (err error) {
			f, err = t.OpenPipe(path)
			return err
		})
		switch {
		case err == nil:
			return file.New(f, w)
		case !errors.Is(err, unix.ENXIO):
			return nil, fmt.Errorf("--fifo: %w", err)
		case time.Now().After(deadline):
			return nil, fmt.Errorf("--fifo: open %s: nobody has read from it for %v", path, fifoPatience)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("--fifo: open %s: nobody read from it: %w", path, unix.EPIPE)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
