package files_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// closed is a command that is started with some descriptors closed, in a shell's notation.
func closed(which string, args ...string) *exec.Cmd {
	own := systest.Command(args...)
	cmd := exec.Command("sh", append([]string{"-c", `exec "$0" "$@" ` + which, own.Path}, args...)...)
	cmd.Env = own.Env
	return cmd
}

// Neither packets nor results are written to a closed standard output. They are written to
// /dev/null if that was opened on purpose.
func TestStdoutClosed(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	file := systest.TempFile(t)
	systest.Account(t, systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", file, "--json").Interrupt())
	counting := " -i " + pair.RxName + " --duration 100ms"
	capture := strings.TrimSpace(counting)
	for _, test := range []struct{ args, which, said string }{
		{capture + " -w -", ">&-", "xdpcap: -w -: standard output is closed, or "},
		{capture + " -w -", "<&- >&-", "xdpcap: -w -: standard output is closed, or "},
		{capture + " -w -", "1<>/dev/null", "xdpcap: -w -: standard output is closed, or "},
		{capture, ">&-", "xdpcap: print packets: standard output is closed, or "},
		{capture + " --print -w " + os.DevNull, ">&-", "xdpcap: print packets: standard output is closed, or "},
		{capture + " -w " + os.DevNull + " --json=/dev/stdout", ">&-", "xdpcap: --json=/dev/stdout: xdpcap was started without this descriptor"},
		{capture + " -C 1M --print-files -w " + systest.TempFile(t), ">&-", "xdpcap: --print-files: standard output is closed, or "},
		{"stats" + counting, ">&-", "xdpcap: print results: standard output is closed, or "},
		{"stats --json" + counting, "1<>/dev/null", "xdpcap: print results: standard output is closed, or "},
		{"count" + counting, ">&-", "xdpcap: print results: standard output is closed, or "},
		{"monitor" + counting, ">&-", "xdpcap: print results: standard output is closed, or "},
		{"drops" + counting, ">&-", "xdpcap: print results: standard output is closed, or "},
		{"monitor --record=1" + counting, ">&-", "xdpcap: print results: standard output is closed, or "},
		{"latency --kernel-stats" + counting, ">&-", "xdpcap: print results: standard output is closed, or "},
		{"replay --measure --program none", ">&-", "xdpcap: print results: standard output is closed, or "},
		{"read -w - " + file, ">&-", "xdpcap: -w -: standard output is closed, or "},

		{capture + " -w -", ">/dev/null", ""},
		{capture, ">/dev/null", ""},
		{"stats" + counting, ">/dev/null", ""},
		{"count --listen 127.0.0.1:0" + counting, ">&-", ""},
		{capture + " -w " + os.DevNull, ">&-", ""},
		{"read " + file, "1<>/dev/null", ""}, // opened read and write, as a program does to test that it can be read
	} {
		status, stderr := systest.StartCommand(t, pair.Rx, nil, closed(test.which, strings.Fields(test.args)...)).Wait()
		if said := test.said != ""; (status == 1) != said || status > 1 || said && !strings.Contains(stderr, test.said) {
			t.Errorf("%s %s: exit status %d: %s", test.args, test.which, status, stderr)
		}
	}
}

// A file that a capture opens never gets the number of a closed standard stream, so that no message
// is written into it.
func TestStreamsClosed(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	file := systest.TempFile(t)
	p := systest.StartCommand(t, pair.Rx, nil, closed("<&- >&- 2>&-", "-i", pair.RxName, "-w", file))
	testnet.WaitFor(t, "the file to be open", func() bool { return holds(p, file) })
	for fd := range 3 {
		if to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", p.Cmd.Process.Pid, fd)); to != os.DevNull {
			t.Errorf("descriptor %d is %s, %v", fd, to, err)
		}
	}
	p.Cmd.Process.Signal(os.Interrupt)
	if status, _ := p.Wait(); status != 0 {
		t.Errorf("exit status %d", status)
	}
	if text, err := systest.Command("read", file).CombinedOutput(); err != nil || len(text) > 0 {
		t.Errorf("%v: %s", err, text)
	}
}

// unreadable runs xdpcap with a stderr that blocks: a pipe that is full.
func unreadable(t *testing.T, pair *testnet.Pair, args string) *systest.Process {
	t.Helper()
	r, w, err := os.Pipe()
	testnet.Must(t, err)
	t.Cleanup(func() { r.Close(); w.Close() })
	w.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	if _, err := w.Write(make([]byte, 1<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	p := &systest.Process{T: t, Cmd: systest.Command(strings.Fields(args)...), Done: make(chan struct{})}
	p.Cmd.Stderr = w
	testnet.Must(t, pair.Rx.Start(p.Cmd))
	go func() {
		p.Cmd.Wait()
		close(p.Done)
	}()
	t.Cleanup(func() {
		p.Cmd.Process.Kill()
		<-p.Done
	})
	return p
}

// If stderr is not read, a capture still captures, finishes its file and ends. The other commands,
// and errors, do not wait for a reader either.
func TestUnreadStderr(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	file := systest.TempFile(t)
	p := unreadable(t, pair, "-i rx0 -w "+file)
	testnet.WaitFor(t, "the capture to attach", func() bool { return systest.Attached(t, pair) != "" })
	testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(64, 0), Count: 1000, Rate: 20_000})
	testnet.WaitFor(t, "packets in the file", func() bool { return packetBlocks(t, file) == 1000 })
	for range 50 {
		p.Cmd.Process.Signal(syscall.SIGUSR1)
	}
	p.Cmd.Process.Signal(os.Interrupt)
	if status, _ := p.Wait(); status != 0 {
		t.Errorf("%v", p.Cmd.ProcessState)
	}
	records, r := systest.ReadFile(t, file)
	if len(records) != 1000 || systest.Statistics(t, r).PacketsReceived != 1000 {
		t.Errorf("%d packets in the file, statistics %+v", len(records), systest.Statistics(t, r))
	}
	others := map[string]int{"-i nosuch": 1, "stats -i rx0 --count 1": 0, "monitor --count 1": 0}
	for args, want := range others {
		if status, _ := unreadable(t, pair, args).Wait(); status != want {
			t.Errorf("%s: exit status %d", args, status)
		}
	}
}
