package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/perf/benchfmt"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

func twoCPUs(transport string) string { return named("TwoCPUs", "transport="+transport) }

// measureTwoCPUs compares two CPUs that receive at the same time with one: by BPF_PROG_RUN, and
// with traffic from both CPUs, which also run the tool.
func (b *bench) measureTwoCPUs(ctx context.Context) (err error) {
	l, err := newLab(networkOptions{cpus: 2}, b.runs)
	if err != nil {
		return fmt.Errorf("network for two CPUs: %w", err)
	}
	defer func() { err = errors.Join(err, l.close()) }()
	own := func(p *program) (all []tool) {
		for _, transport := range transports {
			all = append(all, p.tool(sinkName(transport), transport, xdp.Drop, p.runnable()...))
		}
		return all
	}
	var rows []*row
	for i, transport := range transports {
		for _, p := range b.programs {
			rows = append(rows, &row{name: twoCPUs(transport), of: p, measure: func(ctx context.Context) (*benchfmt.Result, error) {
				return l.scale(ctx, own(p)[i])
			}})
		}
	}
	b.measure(ctx, b.runRounds, rows)
	s := sheet{size: shortSize, cpus: 2, rounds: b.fewRounds, bursts: b.bursts, halvings: b.fewHalvings}
	b.measureSheet(ctx, l.network, s, append(l.alone()[:1], b.entrants(l.network, nowhere, own, nil)...))
	return nil
}

// scale runs programs by BPF_PROG_RUN on one CPU, and on two at the same time. Each CPU has a ring
// of its own, and both rings are emptied before the next run.
func (l *lab) scale(ctx context.Context, t tool) (line *benchfmt.Result, err error) {
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

	frame := testnet.UDPFrame(shortSize, 0)
	repeat := repeatFor(len(frame), 1) * 3 / 2 // long enough that the CPUs run at the same time
	runs := []struct {
		unit string
		prog *ebpf.Program
		cpus int
		all  []float64
	}{
		{unit: "empty-one-pps", prog: l.empty.Program(), cpus: 1}, {unit: "one-pps", prog: prog, cpus: 1},
		{unit: "empty-two-pps", prog: l.empty.Program(), cpus: 2}, {unit: "two-pps", prog: prog, cpus: 2},
	}
	var scales []float64
	for i := range l.runs {
		for j := range runs {
			r := &runs[j]
			rate, err := l.runOn(r.cpus, r.prog, frame, repeat)
			if err != nil {
				return nil, err
			}
			r.all = append(r.all, rate)
			now, err := p.settle(ctx)
			if err != nil {
				return nil, err
			}
			if now.lost > 0 {
				return nil, errors.New("its rings are too small to measure them without loss")
			}
		}
		scales = append(scales, runs[3].all[i]/runs[1].all[i]/(runs[2].all[i]/runs[0].all[i]))
	}
	values := []benchfmt.Value{of(median(scales), scale)}
	for _, r := range runs {
		values = append(values, of(median(r.all), r.unit))
	}
	return measured(repeat*l.runs, values...), nil
}
