// Command demo shows a capture on a network of its own: it makes two network
// namespaces, runs xdpcap in one of them while traffic comes from the other,
// and shows what is in the file. Into a file.svg it draws what a capture and top
// show on a terminal. It needs root; make run and make picture start it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

const (
	trafficTime = 3 * time.Second
	frameGap    = 5 * time.Millisecond
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "demo: usage: demo XDPCAP FILE [FLAGS OF XDPCAP...]")
		os.Exit(1)
	}
	err := run(os.Args[1], os.Args[2], os.Args[3:])
	if err != nil && !errors.Is(err, errSaid) {
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

// record captures the demo's traffic into the file, until the traffic, xdpcap
// or the user ends it.
func record(xdpcap, file string, flags []string) (err error) {
	pair, err := testnet.NewPair(testnet.PairOptions{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pair.Close()) }()
	sender, err := testnet.NewSender(pair.Tx, pair.TxName)
	if err != nil {
		return err
	}
	defer sender.Close()

	cmd := exec.Command(xdpcap, append([]string{"-i", pair.RxName, "-w", file}, flags...)...)
	fmt.Printf("demo network: two namespaces joined by a veth pair; traffic goes from %s to %s\n", pair.TxName, pair.RxName)
	fmt.Printf("$ %s\n", commandLine(cmd))

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	c, err := startCapture(pair.Rx, cmd)
	if err != nil {
		return err
	}
	if c.waitListening(ctx) {
		err = send(ctx, sender, c.ended)
	}
	stop() // a second Ctrl-C ends the demo by force
	return errors.Join(c.stop(), err)
}

// send repeats the mixed traffic until its time is over, ctx is done or ended
// is closed.
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

func commandLine(cmd *exec.Cmd) string {
	words := make([]string, len(cmd.Args))
	for i, word := range cmd.Args {
		if word == "" || strings.ContainsAny(word, " \t\"'$&|;<>()*?[]\\") {
			word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
		words[i] = word
	}
	return strings.Join(words, " ")
}
