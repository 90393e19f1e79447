package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A look is the CPU time of a process, and the time of reading it, since it was resumed.
type look struct{ at, cpu time.Duration }

const (
	// lookTime is the interval between looks.
	lookTime = 50 * time.Microsecond

	// idleTime is how long a process must be idle to have emptied its rings, and idlePart is the
	// part of that time in which it may still have been busy.
	idleTime = 10 * time.Millisecond
	idlePart = 0.05
)

// pauseFor stops the process while f runs, resumes it, and looks at it until it is idle.
func (p *process) pauseFor(ctx context.Context, f func() error) ([]look, error) {
	if err := p.pause(ctx); err != nil {
		return nil, err
	}
	if err := f(); err != nil {
		return nil, errors.Join(err, p.resume())
	}
	before, err := p.cpu()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := p.resume(); err != nil {
		return nil, err
	}
	looks, old := []look{{}}, 0 // old: the last look that is at least idleTime older than the newest
	for time.Since(began) < testnet.Patience && ctx.Err() == nil {
		// Go's own timers may take a millisecond.
		pause := unix.NsecToTimespec(int64(lookTime))
		unix.Nanosleep(&pause, nil)
		now, err := p.cpu()
		if err != nil {
			return nil, err
		}
		last := look{time.Since(began), now - before}
		looks = append(looks, last)
		if last.at < idleTime || last.cpu == 0 {
			continue
		}
		for looks[old+1].at <= last.at-idleTime {
			old++
		}
		if busy := last.cpu - looks[old].cpu; float64(busy) >= idlePart*float64(last.at-looks[old].at) {
			continue
		}
		// Beside other work it may just be waiting for a CPU.
		if runs, err := p.runs(); err != nil || !runs {
			return looks, err
		}
	}
	return nil, errors.Join(ctx.Err(), errors.New("it does not become idle"))
}

// pause stops the process, so that it reads nothing, and waits until it has stopped.
func (p *process) pause(ctx context.Context) error {
	pid := p.cmd.Process.Pid
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		return fmt.Errorf("stop it for a while: %w", err)
	}
	return await(ctx, "its stop", func() (bool, error) {
		var stopped unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &stopped, unix.WSTOPPED|unix.WNOHANG, nil)
		if errors.Is(err, unix.EINTR) {
			err = nil
		}
		return stopped.Signo != 0, err
	})
}

// resume lets a paused process continue.
func (p *process) resume() error { return unix.Kill(p.cmd.Process.Pid, unix.SIGCONT) }

// spent returns the total CPU time.
func spent(looks []look) time.Duration { return looks[len(looks)-1].cpu }

// when returns the time after which a process had used the given CPU time, if it used it evenly
// between two looks.
func when(looks []look, cpu time.Duration) time.Duration {
	for i := 1; i < len(looks); i++ {
		a, b := looks[i-1], looks[i]
		if b.cpu >= cpu && b.cpu > a.cpu {
			return a.at + time.Duration(float64(b.at-a.at)*float64(cpu-a.cpu)/float64(b.cpu-a.cpu))
		}
	}
	return looks[len(looks)-1].at
}
