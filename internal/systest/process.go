// Package systest has the shared helpers of the system tests. These tests start the binary in
// network namespaces of their own, and are in one package per theme below this directory.
package systest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// xdpcapVariable is the environment variable with the path of the binary that make has built.
// Without it, Main builds one.
const xdpcapVariable = "XDPCAP"

// XdpcapPath is the binary that the tests run as xdpcap. Tests start it as a process, to check exit
// status and streams.
var XdpcapPath = os.Getenv(xdpcapVariable)

// Main runs the tests of a package.
func Main(m *testing.M) {
	if os.Getenv(inSurroundings) != "" {
		fmt.Fprintln(os.Stderr, "enter the surroundings:", enterSurroundings())
		os.Exit(2)
	}
	os.Setenv(SettingsFileVariable, os.DevNull) // ignore the settings files of this machine
	os.Setenv(StrictCalls, "kill")              // a system call that the seccomp table does not have kills the process
	// nohup ignores SIGHUP, and a shell without job control ignores SIGINT and SIGQUIT in the
	// background; child processes inherit that. A signal that is caught here has its default action
	// again in the processes that the tests start.
	for _, sig := range []os.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	if XdpcapPath == "" {
		remove, err := buildXdpcap()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer remove()
	}
	return m.Run()
}

// buildXdpcap builds the binary if go test runs without make.
func buildXdpcap() (remove func(), err error) {
	dir, err := os.MkdirTemp("", "xdpcap")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // tests also run it as a user that is not root
		return nil, err
	}
	XdpcapPath = filepath.Join(dir, "xdpcap")
	os.Setenv(xdpcapVariable, XdpcapPath) // for a test binary that enters surroundings
	out, err := exec.Command("go", "build", "-o", XdpcapPath, "github.com/xdpcap/xdpcap/cmd/xdpcap").CombinedOutput()
	if err != nil {
		os.RemoveAll(dir)
		return nil, fmt.Errorf("build xdpcap: %w: %s", err, out)
	}
	return func() { os.RemoveAll(dir) }, nil
}

// Process is a running xdpcap.
type Process struct {
	T     *testing.T
	Cmd   *exec.Cmd
	Ready chan struct{} // closed when it has printed that it listens
	Done  chan struct{} // closed when it has ended

	mu     sync.Mutex
	stderr bytes.Buffer
}

// Command returns a command for xdpcap with these arguments, not started.
func Command(args ...string) *exec.Cmd {
	cmd := exec.Command(XdpcapPath, args...)
	cmd.Env = os.Environ()
	return cmd
}

// Start runs xdpcap in a namespace; stdout may be nil.
func Start(t *testing.T, ns *testnet.Namespace, stdout *os.File, args ...string) *Process {
	t.Helper()
	return StartCommand(t, ns, stdout, Command(args...))
}

// StartCommand is Start for a prepared command.
func StartCommand(t *testing.T, ns *testnet.Namespace, stdout *os.File, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{T: t, Cmd: cmd, Ready: make(chan struct{}), Done: make(chan struct{})}
	if stdout != nil {
		p.Cmd.Stdout = stdout
	}
	stderr, err := p.Cmd.StderrPipe()
	testnet.Must(t, err)
	// --json alone would use stderr, where the tests wait for "listening on". So --json gets
	// another descriptor of the same pipe.
	if i := slices.Index(p.Cmd.Args, "--json"); i > 0 && !slices.ContainsFunc(p.Cmd.Args, isCounter) {
		p.Cmd.Args[i] = "--json=/dev/fd/3"
		p.Cmd.ExtraFiles = []*os.File{p.Cmd.Stderr.(*os.File)} // number 3
	}
	testnet.Must(t, ns.Start(p.Cmd))
	go p.keepStderr(stderr)
	t.Cleanup(func() {
		p.Cmd.Process.Kill()
		<-p.Done
	})
	return p
}

// isCounter reports whether a word is a command whose --json has no file argument.
func isCounter(word string) bool {
	return slices.Contains([]string{"stats", "count", "monitor", "drops", "latency", "replay", "probe"}, word)
}

// keepStderr reads the process's stderr to its end, and then waits for the process.
func (p *Process) keepStderr(stderr io.Reader) {
	defer close(p.Done)
	var once sync.Once
	for lines := bufio.NewReader(stderr); ; {
		line, err := lines.ReadString('\n')
		p.mu.Lock()
		p.stderr.WriteString(line)
		p.mu.Unlock()
		if strings.Contains(line, "listening on") || strings.Contains(line, ": counting packets lost") {
			once.Do(func() { close(p.Ready) })
		}
		if err != nil {
			p.Cmd.Wait()
			return
		}
	}
}

// Stderr returns the text that the process has printed on stderr so far.
func (p *Process) Stderr() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stderr.String()
}

// Listening runs xdpcap until it captures.
func Listening(t *testing.T, ns *testnet.Namespace, stdout *os.File, args ...string) *Process {
	t.Helper()
	return Start(t, ns, stdout, args...).Listening()
}

// Listening waits until the capture has started.
func (p *Process) Listening() *Process {
	p.T.Helper()
	select {
	case <-p.Ready:
	case <-p.Done:
		select {
		case <-p.Ready: // it ended before it was ready
		default:
			p.T.Fatalf("xdpcap %v ended: %s", p.Cmd.Args[1:], p.Stderr())
		}
	case <-time.After(testnet.Patience):
		p.T.Fatalf("xdpcap %v does not listen: %s", p.Cmd.Args[1:], p.Stderr())
	}
	return p
}

// Wait returns the exit status and the text on stderr.
func (p *Process) Wait() (int, string) {
	p.T.Helper()
	select {
	case <-p.Done:
	case <-time.After(testnet.Patience):
		p.Cmd.Process.Signal(syscall.SIGABRT) // prints every goroutine
		<-p.Done
		p.T.Fatalf("xdpcap %v does not end: %s", p.Cmd.Args[1:], p.Stderr())
	}
	return p.Cmd.ProcessState.ExitCode(), p.Stderr()
}

// Interrupt ends it like Ctrl-C, and expects exit status 0.
func (p *Process) Interrupt() string {
	p.T.Helper()
	p.Cmd.Process.Signal(os.Interrupt)
	status, stderr := p.Wait()
	if status != 0 {
		p.T.Errorf("exit status %d: %s", status, stderr)
	}
	return stderr
}

// Account returns the --json summary in stderr and checks that it adds up.
func Account(t *testing.T, stderr string) Summary {
	t.Helper()
	all := Summaries(t, stderr)
	if len(all) == 0 {
		t.Fatalf("no summary in %q", stderr)
	}
	s := all[len(all)-1]
	var sum AccountKeys
	for _, keys := range append([]SourceSummary{{AccountKeys: s.AccountKeys}}, s.Interfaces...) {
		a := keys.AccountKeys
		if a.Seen != a.FilteredOut+a.NotSampled+a.Lost+a.Invalid+a.Captured {
			t.Errorf("the account of %q does not add up: %+v", keys.Interface, a)
		}
		if keys.Interface != "" {
			sum.Seen, sum.Captured, sum.Bytes = sum.Seen+a.Seen, sum.Captured+a.Captured, sum.Bytes+a.Bytes
		}
	}
	if sum.Seen != s.Seen || sum.Captured != s.Captured || sum.Bytes != s.Bytes {
		t.Errorf("the accounts of the interfaces are not the total: %+v", s)
	}
	return s
}

// Summaries returns the objects of --json among the lines of a text.
func Summaries(t *testing.T, text string) []Summary {
	t.Helper()
	var objects strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "{") {
			objects.WriteString(line)
		}
	}
	return Objects[Summary](t, objects.String())
}

// OutputOf runs a tool, and returns its standard output.
func OutputOf(t *testing.T, tool string, args ...string) string {
	t.Helper()
	testnet.Require(t, tool)
	var stderr bytes.Buffer
	cmd := exec.Command(tool, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %v: %v: %s", tool, args, err, stderr.String())
	}
	return string(out)
}

// Run runs a command in a namespace, or in the test's if ns is nil, and returns its output and its
// exit status.
func Run(t *testing.T, ns *testnet.Namespace, cmd *exec.Cmd) (stdout, stderr string, status int) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	start := cmd.Start
	if ns != nil {
		start = func() error { return ns.Start(cmd) }
	}
	testnet.Must(t, start())
	if err := cmd.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// Attached returns the names of the XDP programs on the pair's receiving interface.
func Attached(t *testing.T, pair *testnet.Pair) string {
	t.Helper()
	table, err := RunIn(t, pair.Rx, Command("interfaces"))
	testnet.Must(t, err)
	for line := range strings.Lines(table) {
		if f := strings.Fields(line); f[0] == pair.RxName && f[5] != "-" {
			return f[5]
		}
	}
	return ""
}

// TempFile returns the path of a capture file, which does not exist yet.
func TempFile(t *testing.T) string { return filepath.Join(t.TempDir(), "out.pcapng") }

// StopProcess stops a process, which must still run, until ContinueProcess.
func StopProcess(t *testing.T, p *Process) {
	t.Helper()
	if !TryStopProcess(t, p) {
		t.Fatalf("xdpcap %v ended: %s", p.Cmd.Args[1:], p.Stderr())
	}
}

// TryStopProcess is StopProcess, but returns false if the process has already ended.
func TryStopProcess(t *testing.T, p *Process) (stopped bool) {
	t.Helper()
	p.Cmd.Process.Signal(syscall.SIGSTOP)
	testnet.WaitFor(t, "the process to stop", func() bool {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(p.Cmd.Process.Pid) + "/stat")
		stopped = err == nil && strings.Contains(string(stat), ") T ")
		return stopped || err != nil || strings.Contains(string(stat), ") Z ")
	})
	return stopped
}

// ContinueProcess continues a stopped process.
func ContinueProcess(t *testing.T, p *Process) {
	t.Helper()
	testnet.Must(t, p.Cmd.Process.Signal(syscall.SIGCONT))
}

// Htons returns a number in network byte order.
func Htons(v uint16) uint16 { return v<<8 | v>>8 }
