package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
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
	tool  tool
	cmd   *exec.Cmd
	said  speech
	ended chan struct{}
	err   error // how it ended
}

// startProcess starts a tool and waits until it captures. Its errors do not name the tool, because
// they are printed with its name.
func startProcess(ctx context.Context, ns *testnet.Namespace, t tool, cpus string) (*process, error) {
	if t.missing != "" {
		return nil, errors.New(t.missing)
	}
	p := &process{tool: t, ended: make(chan struct{})}
	p.said.word, p.said.found = t.ready, make(chan struct{})
	// taskset becomes the tool, so the process id is the tool's.
	p.cmd = exec.Command("taskset", append([]string{"-c", cpus}, t.args...)...)
	p.cmd.Stdout, p.cmd.Stderr = &p.said, &p.said
	if t.stdout != nil {
		p.cmd.Stdout = t.stdout
	}
	// A process group of its own keeps the terminal's Ctrl-C from the tool: the bench ends what it
	// started.
	p.cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	if err := ns.Start(p.cmd); err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	select {
	case <-p.said.found:
		return p, nil
	case <-p.ended:
		return nil, fmt.Errorf("ended at once: %v: %s", p.err, oneLine(p.said.text()))
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), p.stop())
	case <-time.After(testnet.Patience):
		return nil, errors.Join(fmt.Errorf("does not begin: %s", oneLine(p.said.text())), p.stop())
	}
}

// cpu returns the CPU time, user and system, that the process has used so far. The kernel sums it
// from the scheduler's clock, like getrusage, which has it only after the process has ended.
func (p *process) cpu() (time.Duration, error) {
	const schedClock = 2 // CPUCLOCK_SCHED of the whole process, linux/posix-timers.h
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^p.cmd.Process.Pid<<3|schedClock), &ts); err != nil {
		return 0, fmt.Errorf("read its CPU time: %w", err)
	}
	return time.Duration(ts.Nano()), nil
}

// runs reports whether a thread of the process runs, or would if a CPU were free.
func (p *process) runs() (bool, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.cmd.Process.Pid))
	if err != nil {
		return false, err
	}
	for _, path := range threads {
		stat, err := os.ReadFile(path)
		if errors.Is(err, unix.ESRCH) || errors.Is(err, fs.ErrNotExist) {
			continue // it has ended
		}
		if err != nil {
			return false, err
		}
		// The state comes after the name, which may contain anything.
		if rest := stat[bytes.LastIndexByte(stat, ')')+1:]; bytes.HasPrefix(rest, []byte(" R")) {
			return true, nil
		}
	}
	return false, nil
}

// counts are xdpcap's own counts of all packets so far.
type counts struct {
	seen, taken, lost uint64 // taken: they were handled, in one way or another
}

var countsLine = regexp.MustCompile(
	`xdpcap: (\d+) seen = (\d+) filtered out \+ (\d+) not sampled \+ (\d+) lost \+ (\d+) invalid \+ (\d+) captured`)

// settle waits until xdpcap has read everything that is in its rings.
func (p *process) settle(ctx context.Context) (c counts, err error) {
	err = await(ctx, "packets that are still in the rings", func() (bool, error) {
		c, err = p.ask(ctx)
		return c.seen == c.taken, err
	})
	return c, err
}

// ask makes xdpcap print its counts.
func (p *process) ask(ctx context.Context) (c counts, err error) {
	before := len(p.said.text())
	p.cmd.Process.Signal(unix.SIGUSR1)
	err = await(ctx, "an answer to SIGUSR1", func() (ok bool, err error) {
		select {
		case <-p.ended:
			err = fmt.Errorf("ended: %v: %s", p.err, oneLine(p.said.text()))
		default:
			c, ok = parseCounts(p.said.text()[before:])
		}
		return ok, err
	})
	return c, err
}

func parseCounts(said string) (c counts, ok bool) {
	m := countsLine.FindStringSubmatch(said)
	if m == nil {
		return c, false
	}
	var n [6]uint64
	for i := range n {
		n[i], _ = strconv.ParseUint(m[i+1], 10, 64)
	}
	return counts{seen: n[0], taken: n[1] + n[2] + n[3] + n[4] + n[5], lost: n[3] + n[4]}, true
}

// end interrupts the process and returns how many packets it reports as captured.
func (p *process) end() (captured uint64, err error) {
	if err := p.stop(); err != nil {
		return 0, err
	}
	if p.err != nil {
		return 0, fmt.Errorf("%w: %s", p.err, oneLine(p.said.text()))
	}
	return p.tool.captured(p.said.text())
}

// stop interrupts the process, and kills it if it has not ended after a while: it may have to wait
// for a disk. Its file is removed.
func (p *process) stop() error {
	p.cmd.Process.Signal(os.Interrupt) // fails if it has ended
	p.resume()
	select {
	case <-p.ended:
	case <-time.After(30 * time.Second):
		p.cmd.Process.Kill()
		<-p.ended
	}
	if p.tool.file == "" {
		return nil
	}
	err := os.Remove(p.tool.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// speech keeps a process's output, and closes found when word has appeared in it.
type speech struct {
	word  string
	found chan struct{}

	mu   sync.Mutex
	kept strings.Builder
	once sync.Once
}

func (s *speech) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept.Write(b)
	if strings.Contains(s.kept.String(), s.word) {
		s.once.Do(func() { close(s.found) })
	}
	return len(b), nil
}

func (s *speech) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept.String()
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// await waits until holds returns true, or an error. what completes the sentence "waited for".
func await(ctx context.Context, what string, holds func() (bool, error)) error {
	for deadline := time.Now().Add(testnet.Patience); ; time.Sleep(time.Millisecond) {
		if ok, err := holds(); ok || err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("waited %v for %s", testnet.Patience, what)
		}
	}
}
