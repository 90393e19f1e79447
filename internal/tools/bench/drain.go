package main

import (
	"fmt"
	"slices"
	"time"

	"golang.org/x/perf/benchfmt"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A drainage is a way to take packets out of filled rings. The rings have their default size unless
// buffer is set, in bytes.
type drainage struct {
	name   string // of the tool, or what differs from the first
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
	{name: wholeName, size: shortSize, rings: 1, to: nowhere},
	{name: wholeName, size: shortSize, rings: 2, to: nowhere},
	{name: wholeName, size: shortSize, rings: 1, to: inMemory},
	{name: wholeName, size: shortSize, rings: 2, to: inMemory},
	{name: bigRings, size: shortSize, rings: 1, to: nowhere, buffer: 64 << 20, args: []string{"-B", "64M"}},
	{name: bigRings, size: shortSize, rings: 2, to: nowhere, buffer: 64 << 20, args: []string{"-B", "64M"}},
	{name: otherFile, size: shortSize, rings: 1, to: nowhere, args: []string{"--format", "pcap"}},
	{name: wholeName, size: smallSize, rings: 2, to: nowhere},
	{name: wholeName, size: middleSize, rings: 2, to: nowhere},
	{name: wholeName, size: longSize, rings: 1, to: nowhere},
	{name: wholeName, size: longSize, rings: 2, to: nowhere},
	{name: wholeName, size: longSize, rings: 1, to: inMemory},
	{name: tcpdumpName, size: shortSize, rings: 1, to: nowhere},
	{name: tcpdumpName, size: shortSize, rings: 1, to: inMemory},
	{name: dumpcapName, size: shortSize, rings: 1, to: nowhere},
	{name: dumpcapName, size: shortSize, rings: 1, to: inMemory},
}

const (
	// filledPart is which part of a ring is filled.
	filledPart = 0.75
	// fewPart divides that down to a few packets, which wake up the process as a full ring does.
	fewPart = 8
)

// benchmark is the name of the benchmark of a tool that empties such rings.
func (d *drainage) benchmark(tool string) string {
	return named("Drain", tool, fmt.Sprintf("rings=%d", d.rings), "to="+placed(d.to), bytesOf(d.size))
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
	samples   []cpuSample // of the process meanwhile; nil: took is known
}

// Laps are the emptyings of full rings, and those of rings with only a few packets: waking up takes
// the same time for both.
type laps struct {
	full []lap
	few  []lap
}

// figures returns the CPU time per packet in ns, by the lower quartile, and the packets per second.
func (l *laps) figures() (cpu, rate float64) {
	var many, few []float64 // ns of CPU time
	each, fewEach := float64(l.full[0].packets), 0.0
	for _, lap := range l.full {
		many = append(many, float64(lap.cpu)*each/float64(lap.packets))
	}
	for _, lap := range l.few {
		few, fewEach = append(few, float64(lap.cpu)), float64(lap.packets)
	}
	cost := func(average func([]float64) float64) float64 {
		if few == nil {
			return average(many) / each
		}
		return max(0, average(many)-average(few)) / (each - fewEach)
	}
	wake := 0.0
	if few != nil {
		wake = max(0, median(few)-fewEach*cost(median))
	}
	var rates []float64
	for _, lap := range l.full {
		took := lap.took
		if lap.samples != nil {
			// The time that waking up does not explain was for the packets, and came first.
			took = timeOfCPU(lap.samples, lap.cpu-time.Duration(wake))
		}
		if took > 0 {
			rates = append(rates, float64(lap.packets)/took.Seconds())
		}
	}
	return cost(quartile), median(rates)
}

// line returns the laps as a measurement.
func (l *laps) line() *benchfmt.Result {
	cpu, rate := l.figures()
	return measured(l.full[0].packets*len(l.full), of(cpu, unitNsPacket), of(rate, unitPPS))
}

// measureDrains measures how fast packets are taken out of filled rings, each beside a thread that
// only copies.
func (b *bench) measureDrains(t testnet.TB) {
	l := newLab(t, networkOptions{}, b.runs)
	dir := newDir(t, inMemory, memoryDir)
	var rows []*row
	for i := range drainages {
		d := &drainages[i]
		add := func(p *program, name, command string, drain func(testnet.TB) *laps) {
			measure := func(t testnet.TB) *benchfmt.Result { return drain(t).line() }
			rows = append(rows, &row{name: d.benchmark(name), command: command, of: p, measure: measure})
		}
		for _, other := range pick(others(), d.name) {
			other = other.to(d.path(dir))
			add(nil, d.name, other.commandLine(), func(t testnet.TB) *laps { return l.drainOther(t, other, d) })
		}
		if slices.Contains(otherNames, d.name) {
			continue
		}
		for _, p := range b.programs {
			own := p.tool(d.name, ring, xdp.Drop, slices.Concat(runnable, d.args)...).to(d.path(dir))
			add(p, d.name, own.commandLine(), func(t testnet.TB) *laps { return l.drain(t, own, d) })
		}
		if d.name == wholeName {
			add(nil, copyingName, "", func(t testnet.TB) *laps { return copyDrain(t, d, d.path(dir), l.runs) })
		}
	}
	b.measure(t.Context(), b.fewRounds, rows)
}

// drain measures xdpcap. Its own program fills the rings: BPF_PROG_RUN runs it on as many CPUs as
// there are rings.
func (l *lab) drain(t testnet.TB, tool tool, d *drainage) *laps {
	p := startProcess(t, l.pair.Rx, tool, allCPUs)
	prog, frame, each := l.attached(t), testnet.UDPFrame(d.size, 0), d.perRing()
	drain := func(packets int) lap {
		samples := p.pauseDuring(func() { l.runOn(t, d.rings, prog, frame, packets) })
		return lap{packets: d.rings * packets, cpu: totalCPU(samples), samples: samples}
	}
	all, few := &laps{}, max(1, each/fewPart)
	var before counts
	for range l.runs {
		all.few = append(all.few, drain(few))
		all.full = append(all.full, drain(each))
		now := p.waitDrained()
		if got, want := now.read-now.lost-before.read+before.lost, uint64(d.rings*(few+each)); got != want {
			t.Fatalf("of %d packets in its rings it took %d", want, got)
		}
		before = now
	}
	p.end()
	return all
}

// drainOther measures another tool, once, because it only reports the number of packets at its end.
// They come as traffic, more than its ring holds.
func (l *lab) drainOther(t testnet.TB, tool tool, d *drainage) *laps {
	testnet.MustReceiver(t, l.pair, tool.verdict, testnet.ReceiverOptions{})
	p := startProcess(t, l.pair.Rx, tool, allCPUs)
	samples := p.pauseDuring(func() {
		l.send(t, d.size, 0, burstTime)
		time.Sleep(tool.handOver) // until the kernel hands over what is in its ring
	})
	captured := p.end()
	if captured == 0 {
		t.Fatalf("it took no packets out of its ring")
	}
	return &laps{full: []lap{{packets: int(captured), cpu: totalCPU(samples), samples: samples}}}
}
