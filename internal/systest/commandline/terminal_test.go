package commandline_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A terminal is a pseudoterminal and the text written to it.
type terminal struct {
	keys *os.File // keyboard input
	side *os.File // the side of the processes
	pid  int      // of top
	mu   sync.Mutex
	text strings.Builder
	done chan struct{} // closed when no process has the terminal open any more
}

func newTerminal(t *testing.T) *terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	testnet.Must(t, err)
	t.Cleanup(func() { master.Close() })
	fd := int(master.Fd())
	testnet.Must(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	testnet.Must(t, err)
	term := &terminal{keys: master, done: make(chan struct{})}
	if term.side, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(term.done)
		for b := make([]byte, 4096); ; {
			n, err := master.Read(b)
			term.mu.Lock()
			term.text.Write(b[:n])
			term.mu.Unlock()
			if err != nil { // EIO: no process has it open
				return
			}
		}
	}()
	return term
}

func (term *terminal) String() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.text.String()
}

// run starts a script of a shell with job control, whose "$@" is xdpcap with these arguments. The
// returned function waits for its end.
func (term *terminal) run(t *testing.T, ns *testnet.Namespace, script string, args ...string) (wait func()) {
	t.Helper()
	all := systest.Command(args...)
	cmd := exec.Command("sh", append([]string{"-c", "set -m; " + script, "sh"}, all.Args...)...)
	cmd.Env = all.Env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = term.side, term.side, term.side
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	testnet.Must(t, ns.Start(cmd))
	term.side.Close()
	t.Cleanup(func() { cmd.Process.Kill() })
	return func() {
		t.Helper()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %s", err, term)
		}
		<-term.done
	}
}

// A capture with a file keeps its status on its terminal, and count a table. A job in the
// background leaves the terminal to the shell, and prints only at its start and end.
func TestTerminalInBackground(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	for _, test := range []struct{ args, live, ends string }{
		{"-i rx0 -w " + systest.TempFile(t), "  0 seen  0 captured  0 lost  ", "packets captured"},
		{"count -i rx0 --interval 200ms", "\x1b[J\r\x1b[", "total  "},
	} {
		args := strings.Fields(test.args)
		shown := newTerminal(t)
		wait := shown.run(t, pair.Rx, `"$@"`, args...)
		testnet.WaitFor(t, "what is live", func() bool { return strings.Contains(shown.String(), test.live) })
		shown.keys.WriteString("\x03") // Ctrl-C
		wait()
		if text := shown.String(); !strings.Contains(text, test.ends) {
			t.Errorf("%s: in the foreground %q is missing: %q", test.args, test.ends, text)
		}
		hidden := newTerminal(t)
		wait = hidden.run(t, pair.Rx, `"$@" & wait`, append(args, "--duration", "2500ms")...)
		wait()
		text := hidden.String()
		if strings.Contains(text, "\x1b") || !strings.Contains(text, test.ends) || !strings.Contains(text, "listening on") {
			t.Errorf("%s & wrote %q", test.args, text)
		}
	}
}
