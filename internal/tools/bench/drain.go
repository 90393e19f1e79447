package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/xdpcap/xdpcap/internal/clock"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/thread"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A drainage is a way to take packets out of filled rings. The rings have their default size unless
// buffer is set, in bytes.
type drainage struct {
	what   string
	size   int
	rings  int // that are filled, each by a CPU
	to     string
	buffer int
	args   []string
}

// Names of drainages that differ from the first.
const (
	bigRings  = "whole packets, -B 64M"
	otherFile = "--format pcap"
)

var drainages = []drainage{
	{what: wholeName, size: testnet.MinFrame, rings: 1, to: nowhere},
	{what: wholeName, size: testnet.MinFrame, rings: 2, to: nowhere},
	{what: wholeName, size: testnet.MinFrame, rings: 1, to: inMemory},
	{what: wholeName, size: testnet.MinFrame, rings: 2, to: inMemory},
	{what: bigRings, size: testnet.MinFrame, rings: 1, to: nowhere, buffer: 64 << 20, args: []string{"-B", "64M"}},
	{what: bigRings, size: testnet.MinFrame, rings: 2, to: nowhere, buffer: 64 << 20, args: []string{"-B", "64M"}},
	{what: otherFile, size: testnet.MinFrame, rings: 1, to: nowhere, args: []string{"--format", "pcap"}},
	{what: wholeName, size: smallSize, rings: 2, to: nowhere},
	{what: wholeName, size: middleSize, rings: 2, to: nowhere},
	{what: wholeName, size: longSize, rings: 1, to: nowhere},
	{what: wholeName, size: longSize, rings: 2, to: nowhere},
	{what: wholeName, size: longSize, rings: 1, to: inMemory},
}

// filledPart is which part of a ring is filled.
const filledPart = 0.9

// ringSize returns the bytes of a ring.
func (d *drainage) ringSize() int {
	if d.buffer == 0 {
		return ringBytes
	}
	return d.buffer
}

// perRing returns how many packets fill a ring.
func (d *drainage) perRing() int {
	return int(filledPart * float64(d.ringSize()) / float64(d.size+recordBytes))
}

// A draining is a drainage that is measured.
type draining struct {
	Drain
	of        *program // nil: not of xdpcap
	measure   func() (laps, error)
	cpu, rate []float64
}

// Laps are the figures of the times that rings were emptied.
type laps struct {
	cpu, rate []float64 // ns per packet; packets per second
	packets   int
}

// add adds a time of which the process needs idle without any packets: the rings were empty when it
// had used the rest of its CPU time.
func (l *laps) add(looks []look, idle time.Duration) {
	if cpu := spent(looks) - idle; cpu > 0 {
		l.addTimes(cpu, when(looks, cpu))
	}
}

func (l *laps) addTimes(cpu, took time.Duration) {
	l.cpu = append(l.cpu, float64(cpu)/float64(l.packets))
	l.rate = append(l.rate, float64(l.packets)/took.Seconds())
}

// measureDrains measures how fast packets are taken out of filled rings.
func (b *bench) measureDrains(ctx context.Context) (err error) {
	l, err := newLab(networkOptions{cpus: 1}, b.costRuns)
	if err != nil {
		return fmt.Errorf("network for filled rings: %w", err)
	}
	defer func() { err = errors.Join(err, l.close()) }()
	dir, err := newDir(inMemory, memoryDir)
	if err != nil {
		return fmt.Errorf("filled rings: %w", err)
	}
	defer os.RemoveAll(dir)

	all := l.drainings(ctx, b.programs, dir)
	for round := range b.fewRounds {
		for _, d := range all {
			if d.Missing != "" {
				continue
			}
			progress("filled rings, round %d of %d: %s, %d bytes, %s", round+1, b.fewRounds, d.What, d.Bytes, d.To)
			some, err := d.measure()
			if err != nil {
				d.Missing = missing(ctx, err)
			}
			d.cpu, d.rate, d.Packets = append(d.cpu, some.cpu...), append(d.rate, some.rate...), some.packets
		}
	}
	for _, d := range all {
		d.CPUNs, d.MedianNs, d.Rate = quantile(d.cpu, 0.25), median(d.cpu), quantile(d.rate, 0.75)
		b.each(d.of, func(r *Report) { r.Drains = append(r.Drains, d.Drain) })
	}
	return nil
}

// drainings returns everything that empties rings, each beside a thread that only copies.
func (l *lab) drainings(ctx context.Context, programs []*program, dir string) (all []*draining) {
	add := func(p *program, what string, d *drainage, command string, measure func() (laps, error)) {
		all = append(all, &draining{of: p, measure: measure, Drain: Drain{
			What: what, Bytes: wireSize(d.size), Rings: d.rings, To: d.to, Command: command,
		}})
	}
	for i := range drainages {
		d := &drainages[i]
		for _, p := range programs {
			t := p.tool(d.what, ring, xdp.Drop, append(p.runnable(), d.args...)...)
			add(p, d.what, d, t.to(shown(d.to)).commandLine(), func() (laps, error) {
				return l.drain(ctx, t.to(d.path(dir)), d)
			})
		}
		if d.what == wholeName {
			add(nil, copyingName, d, "", func() (laps, error) { return copyDrain(d, d.path(dir), l.runs) })
		}
	}
	for _, t := range named(others(), tcpdumpName, dumpcapName) {
		for _, to := range []string{nowhere, inMemory} {
			d := &drainage{what: t.name, size: testnet.MinFrame, rings: 1, to: to}
			add(nil, t.name, d, t.to(shown(to)).commandLine(), func() (laps, error) {
				return l.drainOther(ctx, t.to(d.path(dir)), d)
			})
		}
	}
	return all
}

// path returns the file to write, which may be in dir.
func (d *drainage) path(dir string) string {
	if d.to == nowhere {
		return nowhere
	}
	return dir + "/out"
}

// drain measures xdpcap. Its own program fills the rings, by BPF_PROG_RUN on as many CPUs at a
// time.
func (l *lab) drain(ctx context.Context, t *tool, d *drainage) (all laps, err error) {
	if t.missing != "" {
		return all, errors.New(t.missing)
	}
	p, err := startProcess(ctx, l.pair.Rx, t, allCPUs)
	if err != nil {
		return all, err
	}
	defer func() {
		_, endErr := p.end()
		err = errors.Join(err, endErr)
		if d.to != nowhere {
			os.Remove(d.path(t.dir()))
		}
	}()
	prog, err := l.attached()
	if err != nil {
		return all, err
	}
	defer prog.Close()

	frame, each := testnet.UDPFrame(d.size, 0), d.perRing()
	all.packets = d.rings * each
	var idle []float64
	var before counts
	for range l.runs {
		// What it takes to be stopped and go on is no packet's.
		looks, err := p.pauseFor(ctx, func() error { return nil })
		if err != nil {
			return all, err
		}
		idle = append(idle, float64(spent(looks)))
		looks, err = p.pauseFor(ctx, func() error {
			_, err := l.runOn(d.rings, prog, frame, each)
			return err
		})
		if err != nil {
			return all, err
		}
		now, err := p.settle(ctx)
		if err != nil {
			return all, err
		}
		if got, want := now.taken-now.lost-before.taken+before.lost, uint64(all.packets); got != want {
			return all, fmt.Errorf("of %d packets in its rings it took %d", want, got)
		}
		before = now
		all.add(looks, time.Duration(median(idle)))
	}
	return all, ctx.Err()
}

// drainOther measures another tool, once: only at its end it says how many packets there were. They
// come as traffic, more than its ring holds.
func (l *lab) drainOther(ctx context.Context, t *tool, d *drainage) (all laps, err error) {
	if t.missing != "" {
		return all, errors.New(t.missing)
	}
	v, err := testnet.AttachReceiver(l.pair.Rx, rxName, t.verdict, testnet.ReceiverOptions{})
	if err != nil {
		return all, err
	}
	defer v.Close()
	p, err := startProcess(ctx, l.pair.Rx, t, allCPUs)
	if err != nil {
		return all, err
	}
	if d.to != nowhere {
		defer os.Remove(d.path(t.dir()))
	}
	looks, err := p.pauseFor(ctx, func() error {
		_, _, err := l.send(ctx, d.size, 0, burstTime)
		time.Sleep(t.handOver) // until the kernel hands over what is in its ring
		return err
	})
	captured, endErr := p.end()
	if err := errors.Join(err, endErr); err != nil {
		return all, err
	}
	if captured == 0 {
		return all, errors.New("it took no packets out of its ring")
	}
	all.packets = int(captured)
	all.add(looks, 0)
	return all, nil
}

// copyDrain measures the least that a reader of filled rings has to do: a thread copies as much as
// a block of the file has out of each record, and writes that. By the clock only the longer one of
// the two counts, as if two threads did it.
func copyDrain(d *drainage, path string, runs int) (all laps, err error) {
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return all, err
	}
	defer out.Close()
	if d.to != nowhere {
		defer os.Remove(path)
	}
	record, block := recordSize(d.size), blockSize(d.size)
	rings := make([][]byte, d.rings)
	for i := range rings {
		rings[i] = make([]byte, d.ringSize())
	}
	all.packets = d.rings * d.perRing()
	chunk := make([]byte, 256<<10)
	err = thread.Quiet(0, func() error {
		for lap := range runs {
			for _, ring := range rings {
				for i := range ring {
					ring[i] = byte(i + lap)
				}
			}
			before, err := clock.ThreadTime()
			if err != nil {
				return err
			}
			began, n, writing := time.Now(), 0, time.Duration(0)
			write := func() error {
				start := time.Now()
				_, err := out.Write(chunk[:n])
				writing += time.Since(start)
				n = 0
				return err
			}
			for at := 0; at < d.perRing()*record; at += record {
				for _, ring := range rings {
					if n+block > len(chunk) {
						if err := write(); err != nil {
							return err
						}
					}
					n += copy(chunk[n:n+block], ring[at:])
				}
			}
			if err := write(); err != nil {
				return err
			}
			took := time.Since(began)
			after, err := clock.ThreadTime()
			if err != nil {
				return err
			}
			all.addTimes(after-before, max(writing, took-writing))
		}
		return nil
	})
	return all, err
}
