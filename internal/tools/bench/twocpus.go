package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/cilium/ebpf"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// measureTwoCPUs compares two CPUs that receive at the same time with one.
func (b *bench) measureTwoCPUs(ctx context.Context) (err error) {
	l, err := newLab(networkOptions{cpus: 2}, b.costRuns*b.costRounds)
	if err != nil {
		return fmt.Errorf("network for two CPUs: %w", err)
	}
	defer func() { err = errors.Join(err, l.close()) }()
	for _, transport := range transports {
		for _, p := range b.programs {
			progress("two CPUs, %s", transport)
			result := TwoCPUs{Transport: transport}
			t := p.tool("two CPUs", transport, xdp.Drop, p.runnable()...)
			err := error(nil)
			if t.missing != "" {
				err = errors.New(t.missing)
			} else if err = l.scale(ctx, &t, &result); err == nil {
				err = b.twoSenders(ctx, l.network, &t, &result)
			}
			if err != nil {
				result.Missing = missing(ctx, err)
			}
			p.report.TwoCPUs = append(p.report.TwoCPUs, result)
		}
	}
	return nil
}

// scale runs programs by BPF_PROG_RUN on one CPU, and on two at the same time. Each CPU has a ring
// of its own, and both rings are emptied before the next run.
func (l *lab) scale(ctx context.Context, t *tool, result *TwoCPUs) (err error) {
	p, err := startProcess(ctx, l.pair.Rx, t, allCPUs)
	if err != nil {
		return err
	}
	defer func() {
		_, endErr := p.end()
		err = errors.Join(err, endErr)
	}()
	prog, err := l.attached()
	if err != nil {
		return err
	}
	defer prog.Close()

	frame := testnet.UDPFrame(testnet.MinFrame, 0)
	c := config{kept: 1}
	repeat := repeatFor(len(frame), &c) * 3 / 2 // long enough that the CPUs run at the same time
	var oneEmpty, twoEmpty, one, two, scale []float64
	for range l.runs {
		var rates [4]float64
		for i, run := range []struct {
			prog *ebpf.Program
			cpus int
		}{{l.empty.Program(), 1}, {prog, 1}, {l.empty.Program(), 2}, {prog, 2}} {
			if rates[i], err = l.runOn(run.cpus, run.prog, frame, repeat); err != nil {
				return err
			}
			now, err := p.settle(ctx)
			if err != nil {
				return err
			}
			if now.lost > 0 {
				return errors.New("its rings are too small to measure them without loss")
			}
		}
		oneEmpty, one = append(oneEmpty, rates[0]), append(one, rates[1])
		twoEmpty, two = append(twoEmpty, rates[2]), append(two, rates[3])
		scale = append(scale, rates[3]/rates[1]/(rates[2]/rates[0]))
	}
	result.OneEmpty, result.One = median(oneEmpty), median(one)
	result.TwoEmpty, result.Two = median(twoEmpty), median(two)
	result.Scale = median(scale)
	return nil
}

// runOn runs a program on CPUs at the same time, and returns the sum of their rates.
func (l *lab) runOn(cpus int, prog *ebpf.Program, frame []byte, repeat int) (rate float64, err error) {
	var ready atomic.Int32
	var all sync.WaitGroup
	ns, errs := make([]float64, cpus), make([]error, cpus)
	for cpu := range cpus {
		all.Go(func() {
			ns[cpu], errs[cpu] = l.runProgram(prog, cpu, frame, nil, repeat, func() {
				// Quiet's documentation says why this loop must call something.
				for ready.Add(1); int(ready.Load()) < cpus; {
					runtime.Gosched()
				}
			})
		})
	}
	all.Wait()
	for _, n := range ns {
		rate += 1e9 / n
	}
	return rate, errors.Join(errs...)
}

// twoSenders sends traffic from both CPUs, on which the tool runs as well.
func (b *bench) twoSenders(ctx context.Context, n *network, t *tool, result *TwoCPUs) error {
	var drop, unpaced, captured []float64
	for range b.fewRounds {
		tr, err := n.withTool(ctx, t, load{size: testnet.MinFrame, bursts: b.bursts, time: burstTime, beside: n.drop})
		if err != nil {
			return err
		}
		drop, unpaced, captured = append(drop, tr.beside...), append(unpaced, tr.rates...), append(captured, tr.part())
	}
	e := n.toolEntrant(t)
	e.rates, e.besides, e.parts = unpaced, drop, captured
	result.Drop = median(drop)
	e.finish(n, result.Drop)
	if e.row.Captured < 1 {
		b.search(ctx, n, e, testnet.MinFrame)
	}
	result.Unpaced, result.Keeps, result.Captured = e.row.Unpaced, e.row.Keeps, e.row.Captured
	result.Rate, result.OfDrop = e.row.Rate, e.row.OfDrop
	if e.row.Missing != "" {
		return errors.New(e.row.Missing)
	}
	return nil
}
