package main

import (
	"context"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A traffic is a configuration that traffic is measured with.
type traffic struct {
	cost                     *Cost
	size                     int
	tool                     tool
	rates, beside, part, cpu []float64
}

// measureTraffic measures the rate of unpaced traffic in the configurations, in rounds.
func (b *bench) measureTraffic(ctx context.Context, n *network) error {
	var all []*traffic
	for _, c := range configs {
		if !c.traffic {
			continue
		}
		for _, transport := range transports {
			for _, p := range b.programs {
				cost := p.report.findCost(c.what, transport, wireSize(c.size))
				if cost == nil || cost.Missing != "" {
					continue
				}
				t := p.tool(c.what, transport, xdp.Drop, append([]string{"-i", rxName}, c.args...)...)
				cost.Command = t.commandLine()
				all = append(all, &traffic{cost: cost, size: c.size, tool: t})
			}
		}
	}
	for round := range b.fewRounds {
		for _, t := range all {
			if t.cost.Missing != "" {
				continue
			}
			progress("traffic, round %d of %d: %s, %s", round+1, b.fewRounds, t.cost.What, t.cost.Transport)
			w := load{size: t.size, bursts: b.bursts, time: burstTime, beside: n.drop}
			if err := t.round(ctx, n, w); err != nil {
				t.cost.Missing = missing(ctx, err)
			}
		}
	}
	for _, t := range all {
		t.cost.OfDrop, t.cost.Captured = median(ratios(t.rates, t.beside)), median(t.part)
		t.cost.ReaderUs = median(t.cpu)
	}
	return nil
}

func (t *traffic) round(ctx context.Context, n *network, w load) error {
	tr, err := n.withTool(ctx, &t.tool, w)
	if err != nil {
		return err
	}
	t.rates, t.beside = append(t.rates, tr.rates...), append(t.beside, tr.beside...)
	part := 1.0
	if tr.lost > 0 {
		part = float64(tr.captured) / float64(tr.captured+tr.lost)
	}
	t.part = append(t.part, part)
	// The time that a reader needs without packets tells nothing about a packet.
	if tr.captured > tr.sent/20 {
		t.cpu = append(t.cpu, tr.cpuPerPacket())
	}
	return nil
}
