// Command demo shows a capture on a network of its own: it makes two network namespaces, runs
// xdpcap in one of them while traffic comes from the other, and prints the contents of the file. If
// the file's name ends in .svg, it draws a terminal there on which a capture and top have run. It
// needs root; make run and make picture start it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

const (
	trafficTime = 3 * time.Second
	frameGap    = 5 * time.Millisecond
)

// errReported is the error if xdpcap failed and has printed the reason on stderr itself.
var errReported = errors.New("xdpcap ended with an error")

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "demo: usage: demo XDPCAP FILE [FLAGS OF XDPCAP...]")
		os.Exit(1)
	}
	err := run(os.Args[1], os.Args[2], os.Args[3:])
	if err != nil && !errors.Is(err, errReported) {
		fmt.Fprintln(os.Stderr, "demo:", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	if err != nil {
		os.Exit(1)
	}
}

func run(xdpcap, file string, flags []string) error {
	if os.Geteuid() != 0 {
		return errors.New("needs root, for network namespaces and XDP: use sudo")
	}
	if strings.HasSuffix(file, ".svg") {
		return errors.Join(picture(xdpcap, file), giveBack(file))
	}
	if err := record(xdpcap, file, flags); err != nil {
		return err
	}
	if err := giveBack(file); err != nil {
		return err
	}
	return show(os.Stdout, file)
}

// record captures the demo's traffic into the file, until the traffic, xdpcap or the user ends it.
func record(xdpcap, file string, flags []string) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	return errors.Join(testnet.Try(ctx, func(tb testnet.TB) {
		pair := testnet.MustPair(tb, testnet.PairOptions{})
		sender := testnet.MustSender(tb, pair)
		cmd := exec.Command(xdpcap, append([]string{"-i", pair.RxName, "-w", file}, flags...)...)
		fmt.Printf("demo network: two namespaces joined by a veth pair; traffic goes from %s to %s\n", pair.TxName, pair.RxName)
		fmt.Printf("$ %s\n", message.CommandLine(cmd.Args))
		cmd.Stdout = os.Stdout
		p, failed := testnet.StartProcess(pair.Rx, cmd, "listening on", os.Stderr)
		testnet.Must(tb, failed)
		select {
		case <-p.Ready:
			err = send(ctx, sender, p.Ended)
		case <-p.Ended:
		case <-ctx.Done():
		}
		stop() // a second Ctrl-C ends the demo by force
		err = errors.Join(stopCapture(p), err)
	}), err)
}

// send repeats the mixed traffic until its time is over, ctx is done or ended is closed.
func send(ctx context.Context, sender *testnet.Sender, ended <-chan struct{}) error {
	over := time.After(trafficTime)
	gap := time.NewTicker(frameGap)
	defer gap.Stop()
	for frames := testnet.MixedTraffic(); ; {
		for _, frame := range frames {
			select {
			case <-ctx.Done():
				return nil
			case <-ended:
				return nil
			case <-over:
				return nil
			case <-gap.C:
			}
			if err := sender.Send(frame); err != nil {
				return err
			}
		}
	}
}

// stopCapture interrupts xdpcap, unless it has ended, and returns how it ended.
func stopCapture(p *testnet.Process) error {
	// All sent packets are in the rings by now, and their reader reads them at least every 100 ms.
	// A capture with -c has that time to end without the interrupt.
	select {
	case <-p.Ended:
	case <-time.After(200 * time.Millisecond):
		p.Cmd.Process.Signal(os.Interrupt) // fails if it has just ended
		<-p.Ended
	}
	switch {
	case p.Err == nil:
		return nil
	case p.Cmd.ProcessState.Exited():
		return errReported
	}
	return fmt.Errorf("%s: %w", p.Cmd.Path, p.Err)
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
