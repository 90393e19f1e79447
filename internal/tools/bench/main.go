// Command bench measures xdpcap against xdpdump, tcpdump, dumpcap and no
// capture at all, side by side, and prints a table of ratios. It needs root
// and two CPUs that do nothing else; make bench starts it.
//
// Traffic comes from a testnet.Generator on CPU 0, where the receiving side of the veth pair also
// runs. The tool under test is kept on CPU 1 and writes to /dev/null.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

func main() {
	if len(os.Args) != 2 || strings.HasPrefix(os.Args[1], "-") {
		fmt.Fprintln(os.Stderr, "bench: usage: bench XDPCAP")
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	err := run(ctx, os.Args[1])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", strings.ReplaceAll(err.Error(), "\n", "; "))
		os.Exit(1)
	}
}

func run(ctx context.Context, xdpcap string) (err error) {
	if os.Geteuid() != 0 {
		return errors.New("needs root, for network namespaces and XDP: use sudo")
	}
	if runtime.NumCPU() < 2 {
		return errors.New("needs two CPUs: one sends, one runs the tool")
	}
	if _, err := exec.LookPath(xdpcap); err != nil {
		return err
	}
	n, err := newNetwork()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.close()) }()

	all := tools(xdpcap)
	fmt.Printf("%s\n%s\n", describeMachine(), versions(all))
	var sheets []sheet
	for _, size := range frameSizes {
		s, err := measure(ctx, n, all, size)
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		if err != nil {
			return err
		}
		sheets = append(sheets, s)
		progress("")
		s.print(os.Stdout)
	}
	printNotes(os.Stdout, all)
	c, err := measureCosts(ctx, n, xdpcap)
	progress("")
	if c.err = err; ctx.Err() != nil {
		return errors.New("interrupted")
	}
	c.print(os.Stdout)
	printPromises(os.Stdout, sheets, c)
	return nil
}

// progress shows on a terminal what is being measured, in a line that it replaces.
func progress(format string, args ...any) {
	if term.IsTerminal(int(os.Stderr.Fd())) {
		fmt.Fprintf(os.Stderr, "\r"+format+"\x1b[K", args...)
	}
}
