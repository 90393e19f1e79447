package meter

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// Runtime reads from the kernel's own counters how often a program ran and for how long. While it
// is open, the kernel counts for all BPF programs of the machine, which costs each of them some 20
// ns per run.
type Runtime struct {
	ifi    xdp.Interface
	prog   *ebpf.Program
	stats  io.Closer // closing it switches the kernel's counters off
	before RuntimeCounts
}

// RuntimeCounts are cumulative since Open.
type RuntimeCounts struct {
	Runs uint64
	Time time.Duration // in the program, CLOCK_MONOTONIC
}

// Mean returns the mean run time since before, 0 where there was no run.
func (c RuntimeCounts) Mean(before RuntimeCounts) time.Duration {
	if c.Runs == before.Runs {
		return 0
	}
	return (c.Time - before.Time) / time.Duration(c.Runs-before.Runs)
}

// OpenRuntime reads the counters of the program that runs on an interface. It needs Linux 5.8.
func OpenRuntime(iface string) (*Runtime, error) {
	ifi, err := xdp.EthernetInterface(iface)
	if err != nil {
		return nil, err
	}
	if len(ifi.Programs) == 0 {
		return nil, xdp.Kind(ErrNothingToMeasure, "%s runs no XDP program: attach the one to measure", ifi.Name)
	}
	r := &Runtime{ifi: ifi}
	if err := r.begin(); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func (r *Runtime) begin() (err error) {
	if r.prog, err = ebpf.NewProgramFromID(ebpf.ProgramID(r.Program().ID)); err != nil {
		return fmt.Errorf("open %v on %s: %w", r.Program(), r.ifi.Name, err)
	}
	if r.stats, err = ebpf.EnableStats(unix.BPF_STATS_RUN_TIME); err != nil {
		return support.ExplainLoad("switch on the kernel's run-time counters", err)
	}
	r.before, err = r.count()
	return err
}

// Interface returns the interface that the program runs on.
func (r *Runtime) Interface() xdp.Interface { return r.ifi }

// Program returns the program that is measured.
func (r *Runtime) Program() xdp.Program { return r.ifi.Programs[0] }

// String says where and what is measured.
func (r *Runtime) String() string {
	return fmt.Sprintf("%s, kernel's counters of %v", r.ifi.Name, r.Program())
}

// Read reads the counters. It fails once the program has left the interface.
func (r *Runtime) Read() (RuntimeCounts, error) {
	h := attachment{ifi: r.ifi, runs: r.Program()}
	if err := h.check(); err != nil {
		return RuntimeCounts{}, err
	}
	now, err := r.count()
	return RuntimeCounts{Runs: now.Runs - r.before.Runs, Time: now.Time - r.before.Time}, err
}

func (r *Runtime) count() (RuntimeCounts, error) {
	s, err := r.prog.Stats()
	if err != nil {
		return RuntimeCounts{}, fmt.Errorf("read the run-time counters of %v: %w", r.Program(), err)
	}
	return RuntimeCounts{Runs: s.RunCount, Time: s.Runtime}, nil
}

// Close switches the counters off, unless another process keeps them on.
func (r *Runtime) Close() error {
	var errs []error
	if r.stats != nil {
		errs = append(errs, r.stats.Close())
	}
	return errors.Join(append(errs, r.prog.Close())...) // Close accepts a nil program
}
