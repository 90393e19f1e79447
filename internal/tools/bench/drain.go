package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/xdpcap/xdpcap/internal/testnet"
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

const (
	// filledPart is which part of a ring is filled.
	filledPart = 0.75
	// fewPart divides that down to a few packets, which wake up the process as a full ring does.
	fewPart = 8
)

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
	of      *program // nil: not of xdpcap
	measure func(*laps) error
	laps    laps
}

// A lap is one emptying of the rings.
type lap struct {
	packets   int
	cpu, took time.Duration
	looks     []look // at the process meanwhile; nil: took is known
}

// Laps are the emptyings of full rings, and those of rings with only a few packets: waking up takes
// the same time for both.
type laps struct {
	all []lap
	few []lap
}

// figures returns the CPU time per packet (lower quartile and median) and the packets per second.
func (l *laps) figures() (lower, middle, rate float64) {
	if len(l.all) == 0 {
		return 0, 0, 0
	}
	var many, few []float64 // ns of CPU time
	each, fewEach := float64(l.all[0].packets), 0.0
	for _, lap := range l.all {
		many = append(many, float64(lap.cpu)*each/float64(lap.packets))
	}
	for _, lap := range l.few {
		few, fewEach = append(few, float64(lap.cpu)), float64(lap.packets)
	}
	cost := func(part float64) float64 {
		return max(0, quantile(many, part)-quantile(few, part)) / (each - fewEach)
	}
	lower, middle = cost(0.25), cost(0.5)
	wake := max(0, median(few)-fewEach*middle)
	var rates []float64
	for _, lap := range l.all {
		took := lap.took
		if lap.looks != nil {
			// The time that waking up does not explain was for the packets, and came first.
			took = when(lap.looks, lap.cpu-time.Duration(wake))
		}
		if took > 0 {
			rates = append(rates, float64(lap.packets)/took.Seconds())
		}
	}
	return lower, middle, median(rates)
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
			if err := d.measure(&d.laps); err != nil {
				d.Missing = missing(ctx, err)
			}
		}
	}
	for _, d := range all {
		if d.CPUNs, d.MedianNs, d.Rate = d.laps.figures(); d.Rate > 0 {
			d.Packets = d.laps.all[0].packets
		}
		b.each(d.of, func(r *Report) { r.Drains = append(r.Drains, d.Drain) })
	}
	return nil
}

// drainings returns everything that empties rings, each beside a thread that only copies.
func (l *lab) drainings(ctx context.Context, programs []*program, dir string) (all []*draining) {
	add := func(p *program, what string, d *drainage, command string, measure func(*laps) error) {
		all = append(all, &draining{of: p, measure: measure, Drain: Drain{
			What: what, Bytes: wireSize(d.size), Rings: d.rings, To: d.to, Command: command,
		}})
	}
	for i := range drainages {
		d := &drainages[i]
		for _, p := range programs {
			t := p.tool(d.what, ring, xdp.Drop, append(p.runnable(), d.args...)...)
			add(p, d.what, d, t.to(shown(d.to)).commandLine(), func(all *laps) error {
				return l.drain(ctx, t.to(d.path(dir)), d, all)
			})
		}
		if d.what == wholeName {
			add(nil, copyingName, d, "", func(all *laps) error { return l.copyDrain(d, d.path(dir), all) })
		}
	}
	for _, t := range named(others(), tcpdumpName, dumpcapName) {
		for _, to := range []string{nowhere, inMemory} {
			d := &drainage{what: t.name, size: testnet.MinFrame, rings: 1, to: to}
			add(nil, t.name, d, t.to(shown(to)).commandLine(), func(all *laps) error {
				return l.drainOther(ctx, t.to(d.path(dir)), d, all)
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

// drain measures xdpcap. Its own program fills the rings: BPF_PROG_RUN runs it on as many CPUs as
// there are rings.
func (l *lab) drain(ctx context.Context, t *tool, d *drainage, all *laps) (err error) {
	if t.missing != "" {
		return errors.New(t.missing)
	}
	p, err := startProcess(ctx, l.pair.Rx, t, allCPUs)
	if err != nil {
		return err
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
		return err
	}
	defer prog.Close()

	frame, each := testnet.UDPFrame(d.size, 0), d.perRing()
	few := max(1, each/fewPart)
	var before counts
	for range l.runs {
		for _, n := range []int{few, each} {
			looks, err := p.pauseFor(ctx, func() error {
				_, err := l.runOn(d.rings, prog, frame, n)
				return err
			})
			if err != nil {
				return err
			}
			some := lap{packets: d.rings * n, cpu: spent(looks), looks: looks}
			if n == few {
				all.few = append(all.few, some)
			} else {
				all.all = append(all.all, some)
			}
		}
		now, err := p.settle(ctx)
		if err != nil {
			return err
		}
		if got, want := now.taken-now.lost-before.taken+before.lost, uint64(d.rings*(few+each)); got != want {
			return fmt.Errorf("of %d packets in its rings it took %d", want, got)
		}
		before = now
	}
	return ctx.Err()
}

// drainOther measures another tool, once, because it only reports the number of packets at its end.
// They come as traffic, more than its ring holds.
func (l *lab) drainOther(ctx context.Context, t *tool, d *drainage, all *laps) (err error) {
	if t.missing != "" {
		return errors.New(t.missing)
	}
	v, err := testnet.AttachReceiver(l.pair.Rx, rxName, t.verdict, testnet.ReceiverOptions{})
	if err != nil {
		return err
	}
	defer v.Close()
	p, err := startProcess(ctx, l.pair.Rx, t, allCPUs)
	if err != nil {
		return err
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
		return err
	}
	if captured == 0 {
		return errors.New("it took no packets out of its ring")
	}
	all.all = append(all.all, lap{packets: int(captured), cpu: spent(looks), looks: looks})
	return nil
}
