package meter

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// Runtime reads from the kernel's own counters how often and how long a program ran. While it is
// open, the kernel counts the runs of all BPF programs on the machine, which costs each run about
// 20 ns.
type Runtime struct {
	*followed
	stats io.Closer // closing it switches off the kernel's counters
	began time.Time

	reading sync.Mutex // guards the fields below, which Follow changes
	prog    *ebpf.Program
	before  RuntimeCounts // prog's counters when we began to measure it
	sum     RuntimeCounts // of the programs that prog has replaced
}

// RuntimeCounts are cumulative since OpenRuntime.
type RuntimeCounts struct {
	Runs uint64
	Time time.Duration // time in the program, CLOCK_MONOTONIC
}

// Mean returns the mean run time since before; 0 if there was no run.
func (c RuntimeCounts) Mean(before RuntimeCounts) time.Duration {
	if c.Runs == before.Runs {
		return 0
	}
	return (c.Time - before.Time) / time.Duration(c.Runs-before.Runs)
}

// OpenRuntime reads the counters of the program that runs on an interface. It needs Linux 5.8.
func OpenRuntime(iface string) (*Runtime, error) {
	ifi, err := countable(iface)
	if err != nil {
		return nil, err
	}
	if len(ifi.Programs) == 0 {
		return nil, fmt.Errorf("%s runs no XDP program: attach the one to measure", ifi.Name)
	}
	r := &Runtime{}
	if r.stats, err = ebpf.EnableStats(unix.BPF_STATS_RUN_TIME); err != nil {
		return nil, support.ExplainLoad("switch on the kernel's run-time counters", err)
	}
	r.began = time.Now()
	if err := r.measure(ifi, ifi.Programs[0]); err != nil {
		return nil, errors.Join(err, r.stats.Close())
	}
	if r.followed, err = newFollowed(ifi, "", ifi.Programs[0], r.measure); err != nil {
		return nil, errors.Join(err, r.stats.Close(), r.prog.Close())
	}
	return r, nil
}

// measure switches to a program, whose counters are read from now on.
func (r *Runtime) measure(_ xdp.Interface, p xdp.Program) error {
	prog, err := xdp.OpenProgram(p.ID)
	if errors.Is(err, os.ErrNotExist) {
		return message.Errorf(xdp.ErrNoSuchProgram, "there is no BPF program with id %d", p.ID)
	}
	if err != nil {
		return fmt.Errorf("open XDP program %v: %w", p, err)
	}
	before, err := count(prog)
	if err != nil {
		return errors.Join(err, prog.Close())
	}
	r.reading.Lock()
	defer r.reading.Unlock()
	if r.prog != nil {
		last, err := r.read()
		if err != nil {
			return errors.Join(err, prog.Close())
		}
		r.sum = last
		r.prog.Close()
	}
	r.prog, r.before = prog, before
	return nil
}

// Began returns when counting began, by the clocks of time.Now.
func (r *Runtime) Began() time.Time { return r.began }

// String describes where and what is measured.
func (r *Runtime) String() string {
	return fmt.Sprintf("%s, kernel's counters of %v", r.ifi.Name, r.Program())
}

// Capabilities returns the capability that Follow needs: CAP_SYS_ADMIN, to open another program by
// its id. It traces no program.
func (r *Runtime) Capabilities() []int { return []int{unix.CAP_SYS_ADMIN} }

// Read reads the counters, cumulative since OpenRuntime.
func (r *Runtime) Read() (RuntimeCounts, error) {
	r.reading.Lock()
	defer r.reading.Unlock()
	return r.read()
}

func (r *Runtime) read() (RuntimeCounts, error) {
	now, err := count(r.prog)
	return RuntimeCounts{r.sum.Runs + now.Runs - r.before.Runs, r.sum.Time + now.Time - r.before.Time}, err
}

func count(prog *ebpf.Program) (RuntimeCounts, error) {
	s, err := prog.Stats()
	if err != nil {
		return RuntimeCounts{}, fmt.Errorf("read the kernel's run-time counters of %v: %w", prog, err)
	}
	return RuntimeCounts{Runs: s.RunCount, Time: s.Runtime}, nil
}

// Close switches the counters off, unless another process keeps them on.
func (r *Runtime) Close() error {
	r.watch.Close()
	return errors.Join(r.stats.Close(), r.prog.Close())
}
