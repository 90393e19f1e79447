package main

import (
	"context"
	"errors"
	"fmt"

	"os"
	"time"

	"golang.org/x/perf/benchfmt"

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
	{what: wholeName, size: shortSize, rings: 1, to: nowhere},
	{what: wholeName, size: shortSize, rings: 2, to: nowhere},
	{what: wholeName, size: shortSize, rings: 1, to: inMemory},
	{what: wholeName, size: shortSize, rings: 2, to: inMemory},
	{what: bigRings, size: shortSize, rings: 1, to: nowhere, buffer: 64 << 20, args: []string{"-B", "64M"}},
	{what: bigRings, size: shortSize, rings: 2, to: nowhere, buffer: 64 << 20, args: []string{"-B", "64M"}},
	{what: otherFile, size: shortSize, rings: 1, to: nowhere, args: []string{"--format", "pcap"}},
	{what: wholeName, size: smallSize, rings: 2, to: nowhere},
	{what: wholeName, size: middleSize, rings: 2, to: nowhere},
	{what: wholeName, size: longSize, rings: 1, to: nowhere},
	{what: wholeName, size: longSize, rings: 2, to: nowhere},
	{what: wholeName, size: longSize, rings: 1, to: inMemory},
	{what: tcpdumpName, size: shortSize, rings: 1, to: nowhere},
	{what: tcpdumpName, size: shortSize, rings: 1, to: inMemory},
	{what: dumpcapName, size: shortSize, rings: 1, to: nowhere},
	{what: dumpcapName, size: shortSize, rings: 1, to: inMemory},
}

const (
	// filledPart is which part of a ring is filled.
	filledPart = 0.75
	// fewPart divides that down to a few packets, which wake up the process as a full ring does.
	fewPart = 8
)

// name is that of the benchmark of something that empties such rings.
func (d *drainage) name(what string) string {
	return named("Drain", what, fmt.Sprintf("rings=%d", d.rings), "to="+placed(d.to), bytesOf(d.size))
}

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

// path returns the file to write, which may be in dir.
func (d *drainage) path(dir string) string {
	if d.to == nowhere {
		return nowhere
	}
	return dir + "/out"
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

// figures returns the CPU time per packet, the lower quartile, and the packets per second.
func (l *laps) figures() (cpu, rate float64) {
	var many, few []float64 // ns of CPU time
	each, fewEach := float64(l.all[0].packets), 0.0
	for _, lap := range l.all {
		many = append(many, float64(lap.cpu)*each/float64(lap.packets))
	}
	for _, lap := range l.few {
		few, fewEach = append(few, float64(lap.cpu)), float64(lap.packets)
	}
	cost := func(of func([]float64) float64) float64 {
		if few == nil {
			return of(many) / each
		}
		return max(0, of(many)-of(few)) / (each - fewEach)
	}
	wake := 0.0
	if few != nil {
		wake = max(0, median(few)-fewEach*cost(median))
	}
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
	return cost(quartile), median(rates)
}

// line returns the laps as a measurement.
func (l *laps) line(err error) (*benchfmt.Result, error) {
	if err != nil {
		return nil, err
	}
	cpu, rate := l.figures()
	return measured(l.all[0].packets*len(l.all), of(cpu, nsPacket), of(rate, pps)), nil
}

// measureDrains measures how fast packets are taken out of filled rings, each beside a thread that
// only copies.
func (b *bench) measureDrains(ctx context.Context) (err error) {
	l, err := newLab(networkOptions{cpus: 1}, b.runs)
	if err != nil {
		return fmt.Errorf("network for filled rings: %w", err)
	}
	defer func() { err = errors.Join(err, l.close()) }()
	dir, err := newDir(inMemory, memoryDir)
	if err != nil {
		return fmt.Errorf("filled rings: %w", err)
	}
	defer os.RemoveAll(dir)

	var rows []*row
	for i := range drainages {
		d := &drainages[i]
		add := func(p *program, what string, t tool, drain func(context.Context, tool, *drainage) (*laps, error)) {
			t = t.to(d.path(dir))
			r := &row{name: d.name(what), of: p, measure: func(ctx context.Context) (*benchfmt.Result, error) {
				all, err := drain(ctx, t, d)
				return all.line(err)
			}}
			if t.args != nil {
				r.command = t.commandLine()
			}
			rows = append(rows, r)
		}
		if other := pick(others(), d.what); other != nil {
			add(nil, d.what, other[0], l.drainOther)
			continue
		}
		for _, p := range b.programs {
			add(p, d.what, p.tool(d.what, ring, xdp.Drop, append(p.runnable(), d.args...)...), l.drain)
		}
		if d.what == wholeName {
			add(nil, copyingName, tool{}, func(_ context.Context, t tool, d *drainage) (*laps, error) { return copyDrain(d, d.path(dir), l.runs) })
		}
	}
	b.measure(ctx, b.fewRounds, rows)
	return nil
}

// drain measures xdpcap. Its own program fills the rings: BPF_PROG_RUN runs it on as many CPUs as
// there are rings.
func (l *lab) drain(ctx context.Context, t tool, d *drainage) (all *laps, err error) {
	p, err := startProcess(ctx, l.pair.Rx, t, allCPUs)
	if err != nil {
		return nil, err
	}
	defer func() {
		_, endErr := p.end()
		err = errors.Join(err, endErr)
	}()
	prog, err := l.attached()
	if err != nil {
		return nil, err
	}
	defer prog.Close()

	all = &laps{}
	frame, each := testnet.UDPFrame(d.size, 0), d.perRing()
	few := max(1, each/fewPart)
	var before counts
	for range l.runs {
		for _, fill := range []struct {
			packets int
			laps    *[]lap
		}{{few, &all.few}, {each, &all.all}} {
			looks, err := p.pauseFor(ctx, func() error {
				_, err := l.runOn(d.rings, prog, frame, fill.packets)
				return err
			})
			if err != nil {
				return nil, err
			}
			*fill.laps = append(*fill.laps, lap{packets: d.rings * fill.packets, cpu: spent(looks), looks: looks})
		}
		now, err := p.settle(ctx)
		if err != nil {
			return nil, err
		}
		if got, want := now.taken-now.lost-before.taken+before.lost, uint64(d.rings*(few+each)); got != want {
			return nil, fmt.Errorf("of %d packets in its rings it took %d", want, got)
		}
		before = now
	}
	return all, ctx.Err()
}

// drainOther measures another tool, once, because it only reports the number of packets at its end.
// They come as traffic, more than its ring holds.
func (l *lab) drainOther(ctx context.Context, t tool, d *drainage) (all *laps, err error) {
	var opened closers
	defer func() { err = errors.Join(err, opened.close()) }()
	if _, err := opened.attach(l.pair, t.verdict); err != nil {
		return nil, err
	}
	p, err := startProcess(ctx, l.pair.Rx, t, allCPUs)
	if err != nil {
		return nil, err
	}
	looks, err := p.pauseFor(ctx, func() error {
		_, _, err := l.send(ctx, d.size, 0, burstTime)
		time.Sleep(t.handOver) // until the kernel hands over what is in its ring
		return err
	})
	captured, endErr := p.end()
	if err := errors.Join(err, endErr); err != nil {
		return nil, err
	}
	if captured == 0 {
		return nil, errors.New("it took no packets out of its ring")
	}
	return &laps{all: []lap{{packets: int(captured), cpu: spent(looks), looks: looks}}}, nil
}
