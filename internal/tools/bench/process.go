package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// Where the tool under test runs, in taskset's notation: away from the traffic, unless both CPUs
// send.
const (
	toolCPU = "1"
	allCPUs = "0,1"
)

// A process is a running tool.
type process struct {
	*testnet.Process
	t    testnet.TB
	tool tool
}

// startProcess starts a tool and waits until it captures. It is stopped when t ends, at the latest.
// Errors do not name the tool, because they are printed with its name.
func startProcess(t testnet.TB, ns *testnet.Namespace, tool tool, cpus string) *process {
	if _, err := exec.LookPath(tool.args[0]); err != nil {
		t.Fatalf("not installed")
	}
	// taskset becomes the tool, so the process id is the tool's.
	cmd := exec.Command("taskset", append([]string{"-c", cpus}, tool.args...)...)
	if tool.stdout != nil {
		cmd.Stdout = tool.stdout
	}
	started, err := testnet.StartProcess(ns, cmd, tool.ready, io.Discard)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	p := &process{started, t, tool}
	t.Cleanup(func() { testnet.Must(t, p.stop()) })
	select {
	case <-p.Ready:
	case <-p.Ended:
		t.Fatalf("ended at once: %v: %s", p.Err, oneLine(p.Output()))
	case <-t.Context().Done():
		t.Fatalf("%v", t.Context().Err())
	case <-time.After(testnet.Patience):
		t.Fatalf("does not begin: %s", oneLine(p.Output()))
	}
	return p
}

// cpu returns the CPU time, user and system, that the process has used so far. The kernel sums it
// from the scheduler's clock, like getrusage, which has it only after the process has ended.
func (p *process) cpu() time.Duration {
	const schedClock = 2 // CPUCLOCK_SCHED of the whole process, linux/posix-timers.h
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^p.Cmd.Process.Pid<<3|schedClock), &ts); err != nil {
		p.t.Fatalf("read its CPU time: %v", err)
	}
	return time.Duration(ts.Nano())
}

// isRunnable reports whether a thread of the process runs, or would if a CPU were free.
func (p *process) isRunnable() bool {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.Cmd.Process.Pid))
	testnet.Must(p.t, err)
	for _, path := range threads {
		stat, err := os.ReadFile(path)
		if errors.Is(err, unix.ESRCH) || errors.Is(err, fs.ErrNotExist) {
			continue // it has ended
		}
		testnet.Must(p.t, err)
		// The state comes after the name, which may contain anything.
		if rest := stat[bytes.LastIndexByte(stat, ')')+1:]; bytes.HasPrefix(rest, []byte(" R")) {
			return true
		}
	}
	return false
}

// counts are xdpcap's own counts of all packets so far.
type counts struct {
	seen, read, lost uint64 // read: seen, and no longer in a ring
}

var countsLine = regexp.MustCompile(
	`xdpcap: (\d+) seen = (\d+) filtered out \+ (\d+) not sampled \+ (\d+) lost \+ (\d+) invalid \+ (\d+) captured`)

// waitDrained waits until xdpcap has read everything that is in its rings.
func (p *process) waitDrained() (c counts) {
	testnet.WaitFor(p.t, "packets that are still in the rings", func() bool {
		testnet.Must(p.t, p.t.Context().Err())
		c = p.readCounts()
		return c.seen == c.read
	})
	return c
}

// readCounts makes xdpcap print its counts.
func (p *process) readCounts() (c counts) {
	before := len(p.Output())
	p.Cmd.Process.Signal(unix.SIGUSR1)
	testnet.WaitFor(p.t, "an answer to SIGUSR1", func() (ok bool) {
		select {
		case <-p.Ended:
			p.t.Fatalf("ended: %v: %s", p.Err, oneLine(p.Output()))
		default:
			c, ok = parseCounts(p.Output()[before:])
		}
		return ok
	})
	return c
}

func parseCounts(text string) (c counts, ok bool) {
	m := countsLine.FindStringSubmatch(text)
	if m == nil {
		return c, false
	}
	var n [6]uint64
	for i := range n {
		n[i], _ = strconv.ParseUint(m[i+1], 10, 64)
	}
	return counts{seen: n[0], read: n[1] + n[2] + n[3] + n[4] + n[5], lost: n[3] + n[4]}, true
}

// end interrupts the process and returns how many packets it reports as captured.
func (p *process) end() (captured uint64) {
	testnet.Must(p.t, p.stop())
	if p.Err != nil {
		p.t.Fatalf("%v: %s", p.Err, oneLine(p.Output()))
	}
	captured, err := p.tool.captured(p.Output())
	testnet.Must(p.t, err)
	return captured
}

// stop interrupts the process, and kills it if it has not ended after a while: it may have to wait
// for a disk. Its file is removed. A second call has no effect.
func (p *process) stop() error {
	p.Cmd.Process.Signal(os.Interrupt) // fails if it has ended
	p.Cmd.Process.Signal(unix.SIGCONT) // it may be paused
	select {
	case <-p.Ended:
	case <-time.After(30 * time.Second):
		p.Cmd.Process.Kill()
		<-p.Ended
	}
	if p.tool.file == "" {
		return nil
	}
	return os.RemoveAll(p.tool.file) // no error if there is none
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
