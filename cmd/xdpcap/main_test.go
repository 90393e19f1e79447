package main_test

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/cli"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// Tests start processes of xdpcap, so that they see exit status and streams. XDPCAP names the
// binary that make has built. It starts in less than half the time of the test binary, which also
// contains everything that only tests import. Without it the test binary runs as xdpcap: it does
// when beXdpcap is set.
const beXdpcap = "XDPCAP_TEST_MAIN"

// xdpcapPath is what the tests run as xdpcap.
var xdpcapPath = cmp.Or(os.Getenv("XDPCAP"), os.Args[0])

func TestMain(m *testing.M) {
	if os.Getenv(inSurroundings) != "" {
		fmt.Fprintln(os.Stderr, "enter the surroundings:", enterSurroundings())
		os.Exit(2)
	}
	if os.Getenv(beXdpcap) != "" {
		if os.Getenv(tryInside) != "" {
			go answerInside()
		}
		os.Exit(cli.Main(os.Args))
	}
	os.Setenv(settingsFileVariable, os.DevNull) // not the files of this machine
	os.Setenv(strictCalls, "kill")              // the process was killed by a system call that the table does not have
	// nohup ignores SIGHUP, a shell without job control SIGINT and SIGQUIT in the background, and
	// what is started inherits that. A signal that is caught here is the default again in the
	// processes that the tests start.
	for _, sig := range []os.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
	os.Exit(m.Run())
}

// A process is a running xdpcap.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	ready  chan struct{} // closed when it says that it listens
	done   chan struct{} // closed when it has ended
	mu     sync.Mutex
	stderr bytes.Buffer
}

// command is xdpcap with these arguments, not started.
func command(args ...string) *exec.Cmd {
	cmd := exec.Command(xdpcapPath, args...)
	cmd.Env = append(os.Environ(), beXdpcap+"=1")
	return cmd
}

// start runs xdpcap in a namespace; stdout may be nil.
func start(t *testing.T, ns *testnet.Namespace, stdout *os.File, args ...string) *process {
	t.Helper()
	return startCommand(t, ns, stdout, command(args...))
}

// startCommand is start for a command that somebody has prepared.
func startCommand(t *testing.T, ns *testnet.Namespace, stdout *os.File, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, ready: make(chan struct{}), done: make(chan struct{})}
	if stdout != nil {
		p.cmd.Stdout = stdout
	}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	// --json alone would take stderr for itself, where the tests wait for "listening on". It gets
	// another descriptor of the same pipe.
	if i := slices.Index(p.cmd.Args, "--json"); i > 0 && !slices.ContainsFunc(p.cmd.Args, isCounter) {
		p.cmd.Args[i] = "--json=/dev/fd/3"
		p.cmd.ExtraFiles = []*os.File{p.cmd.Stderr.(*os.File)} // number 3
	}
	if err := ns.Start(p.cmd); err != nil {
		t.Fatal(err)
	}
	go p.follow(stderr)
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		<-p.done
	})
	return p
}

// isCounter tells whether a word is a command whose --json takes no file.
func isCounter(word string) bool {
	return slices.Contains([]string{"stats", "count", "monitor", "drops", "latency", "bench", "probe"}, word)
}

func (p *process) follow(stderr io.Reader) {
	defer close(p.done)
	var once sync.Once
	for lines := bufio.NewReader(stderr); ; {
		line, err := lines.ReadString('\n')
		p.mu.Lock()
		p.stderr.WriteString(line)
		p.mu.Unlock()
		if strings.Contains(line, "listening on") {
			once.Do(func() { close(p.ready) })
		}
		if err != nil {
			p.cmd.Wait()
			return
		}
	}
}

func (p *process) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stderr.String()
}

// listening runs xdpcap until it captures.
func listening(t *testing.T, ns *testnet.Namespace, stdout *os.File, args ...string) *process {
	t.Helper()
	return start(t, ns, stdout, args...).listening()
}

// listening waits until it captures.
func (p *process) listening() *process {
	p.t.Helper()
	select {
	case <-p.ready:
	case <-p.done:
		select {
		case <-p.ready: // it ended before anybody looked
		default:
			p.t.Fatalf("xdpcap %v ended: %s", p.cmd.Args[1:], p.said())
		}
	case <-time.After(testnet.Patience):
		p.t.Fatalf("xdpcap %v does not listen: %s", p.cmd.Args[1:], p.said())
	}
	return p
}

// wait returns the exit status and what was on stderr.
func (p *process) wait() (int, string) {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(testnet.Patience):
		p.cmd.Process.Signal(syscall.SIGABRT) // prints every goroutine
		<-p.done
		p.t.Fatalf("xdpcap %v does not end: %s", p.cmd.Args[1:], p.said())
	}
	return p.cmd.ProcessState.ExitCode(), p.said()
}

// interrupt ends it as Ctrl-C does, and expects the exit status 0.
func (p *process) interrupt() string {
	p.t.Helper()
	p.cmd.Process.Signal(os.Interrupt)
	status, stderr := p.wait()
	if status != 0 {
		p.t.Errorf("exit status %d: %s", status, stderr)
	}
	return stderr
}

// account finds the --json summary in stderr and checks that it adds up.
func account(t *testing.T, stderr string) summary {
	t.Helper()
	all := summaries(t, stderr)
	if len(all) == 0 {
		t.Fatalf("no summary in %q", stderr)
	}
	s := all[len(all)-1]
	var sum AccountKeys
	for _, keys := range append([]sourceSummary{{AccountKeys: s.AccountKeys}}, s.Interfaces...) {
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

// summaries are all the objects of --json in a text.
func summaries(t *testing.T, text string) (all []summary) {
	t.Helper()
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "{") {
			continue
		}
		var s summary
		d := json.NewDecoder(strings.NewReader(line))
		d.DisallowUnknownFields()
		if err := d.Decode(&s); err != nil {
			t.Fatalf("summary %s: %v", line, err)
		}
		all = append(all, s)
	}
	return all
}

// output runs a tool on a file and returns what it prints.
func outputOf(t *testing.T, tool string, args ...string) string {
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

// attached names the XDP programs on the pair's receiving interface.
func attached(t *testing.T, pair *testnet.Pair) string {
	t.Helper()
	var out bytes.Buffer
	cmd := command("interfaces")
	cmd.Stdout = &out
	if err := pair.Rx.Start(cmd); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if f := strings.Fields(line); f[0] == pair.RxName && f[5] != "-" {
			return f[5]
		}
	}
	return ""
}

func tempFile(t *testing.T) string { return filepath.Join(t.TempDir(), "out.pcapng") }
