package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// toolCPU is where the tool under test runs, away from the traffic.
const toolCPU = 1

// A process is a running tool.
type process struct {
	tool  *tool
	cmd   *exec.Cmd
	said  speech
	ended chan struct{}
	err   error // how it ended
}

// startProcess starts a tool and waits until it captures. Its errors do not name the tool, because
// they are printed with its name.
func startProcess(ctx context.Context, ns *testnet.Namespace, t *tool) (*process, error) {
	p := &process{tool: t, ended: make(chan struct{})}
	p.said.word, p.said.found = t.ready, make(chan struct{})
	// taskset becomes the tool, so the process id is the tool's.
	p.cmd = exec.Command("taskset", append([]string{"-c", strconv.Itoa(toolCPU)}, t.args...)...)
	p.cmd.Stdout, p.cmd.Stderr = &p.said, &p.said
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
		p.stop()
		return nil, ctx.Err()
	case <-time.After(20 * time.Second):
		p.stop()
		return nil, fmt.Errorf("does not begin: %s", oneLine(p.said.text()))
	}
}

// cpu returns the CPU time, user and system, that the process has used so far. The kernel sums it
// from the scheduler's clock, as for getrusage, which has it only after the end.
func (p *process) cpu() (time.Duration, error) {
	const schedClock = 2 // CPUCLOCK_SCHED of the whole process, linux/posix-timers.h
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^p.cmd.Process.Pid<<3|schedClock), &ts); err != nil {
		return 0, fmt.Errorf("read its CPU time: %w", err)
	}
	return time.Duration(ts.Nano()), nil
}

// end interrupts the process and returns how many packets it reports as captured.
func (p *process) end() (captured uint64, err error) {
	p.stop()
	if p.err != nil {
		return 0, fmt.Errorf("%w: %s", p.err, oneLine(p.said.text()))
	}
	return p.tool.captured(p.said.text())
}

// stop interrupts the process, and kills it if it has not ended after 10 s.
func (p *process) stop() {
	p.cmd.Process.Signal(os.Interrupt) // fails if it has ended
	select {
	case <-p.ended:
	case <-time.After(10 * time.Second):
		p.cmd.Process.Kill()
		<-p.ended
	}
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
