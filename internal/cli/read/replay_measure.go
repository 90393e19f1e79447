package read

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/replay"
)

// checkMeasure refuses what does not go with --measure.
func (r *replayOptions) checkMeasure(o *Options) error {
	switch {
	case !r.measure:
		return nil
	case r.against != "" || r.expect != "" || len(o.Writes) > 0 || o.Print || r.ingress != "":
		return errors.New("--measure runs the program over and over on a few packets: omit --against, --expect, --ingress, -w and --print")
	case r.duration < 10*time.Millisecond:
		return fmt.Errorf("--duration %v: must be at least 10ms", r.duration)
	}
	return nil
}

// printMeasured measures the program on the first CPU that this process may run on, and prints what
// it costs.
func (r *replayOptions) printMeasured(ctx context.Context, o *Options) error {
	cpu, err := firstCPU()
	if err != nil {
		return err
	}
	p := r.options.Program
	frame.Say(o.Process.Stderr, "measuring %v on CPU %d for %v and longer", p, cpu, r.duration)
	m, err := replay.Measure(ctx, replay.MeasureOptions{Program: p, Packets: r.sample.Data, CPU: cpu, Duration: r.duration})
	if err != nil {
		return err
	}
	return printReport(o.Process.Stdout, newMeasuredReport(p, m, &r.sample, cpu), o.json)
}

func firstCPU() (int, error) {
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		return 0, fmt.Errorf("ask for the CPUs of this process: %w", err)
	}
	for cpu := range len(allowed) * 64 {
		if allowed.IsSet(cpu) {
			return cpu, nil
		}
	}
	return 0, errors.New("this process may run on no CPU")
}
