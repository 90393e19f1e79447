package main

import (
	"github.com/cilium/ebpf"
	"golang.org/x/perf/benchfmt"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

func twoCPUs(transport string) string { return named("TwoCPUs", "transport="+transport) }

// measureTwoCPUs compares two CPUs that receive at the same time with one: by BPF_PROG_RUN, and
// with traffic from both CPUs, which also run the tool.
func (b *bench) measureTwoCPUs(t testnet.TB) {
	l := newLab(t, networkOptions{cpus: 2}, b.runs)
	sinkTools := func(p *program) (all []tool) {
		for _, transport := range transports {
			all = append(all, p.tool(sinkName(transport), transport, xdp.Drop, runnable...))
		}
		return all
	}
	var rows []*row
	for i, transport := range transports {
		for _, p := range b.programs {
			measure := func(t testnet.TB) *benchfmt.Result { return l.scale(t, sinkTools(p)[i]) }
			rows = append(rows, &row{name: twoCPUs(transport), of: p, measure: measure})
		}
	}
	b.measure(t.Context(), b.runRounds, rows)
	s := sheet{size: shortSize, cpus: 2, rounds: b.fewRounds, bursts: b.bursts, halvings: b.fewHalvings}
	noCapture := l.alone()[:1] // only that with XDP_DROP, because --sink drops, too
	b.measureSheet(t, l.network, s, append(noCapture, b.entrants(l.network, nowhere, sinkTools, nil)...))
}

// scale runs programs by BPF_PROG_RUN on one CPU, and on two at the same time. Each CPU has a ring
// of its own, and both rings are emptied before the next run.
func (l *lab) scale(t testnet.TB, tool tool) *benchfmt.Result {
	p := startProcess(t, l.pair.Rx, tool, allCPUs)
	prog := l.attached(t)
	frame := testnet.UDPFrame(shortSize, 0)
	repeat := repeatFor(len(frame), 1) * 3 / 2 // long enough that the CPUs run at the same time
	runs := []struct {
		unit  string
		prog  *ebpf.Program
		cpus  int
		rates []float64
	}{
		{unit: "empty-one-pps", prog: l.empty.Program(), cpus: 1}, {unit: "one-pps", prog: prog, cpus: 1},
		{unit: "empty-two-pps", prog: l.empty.Program(), cpus: 2}, {unit: "two-pps", prog: prog, cpus: 2},
	}
	var scales []float64
	for i := range l.runs {
		for j := range runs {
			r := &runs[j]
			r.rates = append(r.rates, l.runOn(t, r.cpus, r.prog, frame, repeat))
			if p.waitDrained().lost > 0 {
				t.Fatalf("its rings are too small to measure them without loss")
			}
		}
		// How much two CPUs gain over one, by what they gain with an empty program: 1 = the capture
		// does not slow the second CPU down.
		emptyOne, one, emptyTwo, two := runs[0].rates[i], runs[1].rates[i], runs[2].rates[i], runs[3].rates[i]
		scales = append(scales, two/one/(emptyTwo/emptyOne))
	}
	p.end()
	values := []benchfmt.Value{of(median(scales), unitScale)}
	for _, r := range runs {
		values = append(values, of(median(r.rates), r.unit))
	}
	return measured(repeat*l.runs, values...)
}
