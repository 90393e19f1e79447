package main

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A cpuSample is the CPU time of a process, and the time of reading it, since it was resumed.
type cpuSample struct{ at, cpu time.Duration }

const (
	// sampleInterval is the time between two samples.
	sampleInterval = 50 * time.Microsecond

	// idleTime is how long a process must be idle to have emptied its rings, and idlePart is the
	// part of that time in which it may still have been busy.
	idleTime = 10 * time.Millisecond
	idlePart = 0.05
)

// pauseDuring stops the process while f runs, resumes it, and samples its CPU time until it is
// idle.
func (p *process) pauseDuring(f func()) []cpuSample {
	p.pause()
	f()
	before, began := p.cpu(), time.Now()
	if err := p.Cmd.Process.Signal(unix.SIGCONT); err != nil {
		p.t.Fatalf("resume it: %v", err)
	}
	samples := []cpuSample{{}}
	old := 0 // the last sample that is at least idleTime older than the newest
	for time.Since(began) < testnet.Patience && p.t.Context().Err() == nil {
		// Go's own timers may take a millisecond.
		pause := unix.NsecToTimespec(int64(sampleInterval))
		unix.Nanosleep(&pause, nil)
		used := p.cpu() - before
		last := cpuSample{time.Since(began), used}
		samples = append(samples, last)
		if last.at < idleTime || last.cpu == 0 {
			continue
		}
		for samples[old+1].at <= last.at-idleTime {
			old++
		}
		busy := last.cpu - samples[old].cpu
		isIdle := float64(busy) < idlePart*float64(last.at-samples[old].at)
		// Beside other work it may just be waiting for a CPU.
		if isIdle && !p.isRunnable() {
			return samples
		}
	}
	p.t.Fatalf("it does not become idle")
	return nil
}

// pause stops the process, and waits until it has stopped.
func (p *process) pause() {
	if err := p.Cmd.Process.Signal(unix.SIGSTOP); err != nil {
		p.t.Fatalf("pause it: %v", err)
	}
	testnet.WaitFor(p.t, "its stop", func() bool {
		var stopped unix.Siginfo
		err := unix.Waitid(unix.P_PID, p.Cmd.Process.Pid, &stopped, unix.WSTOPPED|unix.WNOHANG, nil)
		if err != nil && !errors.Is(err, unix.EINTR) {
			p.t.Fatalf("wait for its stop: %v", err)
		}
		return stopped.Signo != 0
	})
}

// totalCPU returns the CPU time of all samples.
func totalCPU(samples []cpuSample) time.Duration { return samples[len(samples)-1].cpu }

// timeOfCPU returns the time after which a process had used the given CPU time, if it used it
// evenly between two samples.
func timeOfCPU(samples []cpuSample, cpu time.Duration) time.Duration {
	for i := 1; i < len(samples); i++ {
		a, b := samples[i-1], samples[i]
		if b.cpu >= cpu && b.cpu > a.cpu {
			return a.at + time.Duration(float64(b.at-a.at)*float64(cpu-a.cpu)/float64(b.cpu-a.cpu))
		}
	}
	return samples[len(samples)-1].at
}
