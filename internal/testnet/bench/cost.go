package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"time"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// costRepeats is how often two rates are compared: what is looked for is a few nanoseconds.
const costRepeats = 5

// costs are what a packet costs in the XDP program itself, where nothing is sent to user space.
type costs struct {
	filter     float64 // ns of `tcp port 443` on a packet that it matches
	sample1000 float64 // the rate with --sample 1000 --sink, as a part of XDP_DROP's
	stats      float64 // ns of stats over an empty program
	count      float64 // ns of count over an empty program
	err        error   // why one is missing: 0
}

func measureCosts(ctx context.Context, n *network, xdpcap string) (c costs, err error) {
	// Nothing is sent, but for one packet in four billion.
	idle := []string{xdpcap, "-i", rxName, "--sink", "--sample", "4000000000", "-w", "/dev/null", "--json"}
	n.frame = testnet.TxToRx().TCP(testnet.Segment{SrcPort: 40000, DstPort: 443})
	without, with, err := n.compare(ctx, "tcp port 443", quietTool(idle...), quietTool(append(idle, "tcp port 443")...))
	n.frame = nil
	if err != nil {
		return c, err
	}
	c.filter = nanoseconds(with) - nanoseconds(without)

	drop, sampled, err := n.compare(ctx, "--sample 1000", nil,
		quietTool(xdpcap, "-i", rxName, "--sink", "--sample", "1000", "-w", "/dev/null", "--json"))
	if err != nil {
		return c, err
	}
	c.sample1000 = sampled / drop

	drop, counted, err := n.compare(ctx, "stats", nil, quietTool(xdpcap, "stats", "-i", rxName, "--action", "drop", "--yes"))
	if err != nil {
		return c, err
	}
	c.stats = nanoseconds(counted) - nanoseconds(drop)

	progress("count")
	c.count, err = countCost(ctx, xdpcap)
	return c, err
}

func nanoseconds(rate float64) float64 { return 1e9 / rate }

// quietTool is a tool under which packets are dropped, and whose own count is not asked for.
func quietTool(args ...string) *tool {
	return &tool{
		args:     args,
		verdict:  testnet.Drop,
		ready:    "listening on",
		captured: func(string) (uint64, error) { return 0, nil },
	}
}

// compare measures two rates in turn, of unpaced traffic of the shortest frames, and returns the medians. Without a tool,
// nil, packets are dropped by the emptiest program there is.
func (n *network) compare(ctx context.Context, what string, a, b *tool) (rateA, rateB float64, err error) {
	var rates [2][]float64
	for range costRepeats {
		for i, t := range []*tool{a, b} {
			progress("cost of %s", what)
			rate, err := n.unpaced(ctx, t)
			if err != nil {
				return 0, 0, fmt.Errorf("cost of %s: %w", what, err)
			}
			rates[i] = append(rates[i], rate)
		}
	}
	return median(rates[0]), median(rates[1]), nil
}

func (n *network) unpaced(ctx context.Context, t *tool) (float64, error) {
	if t == nil {
		return n.withoutTool(ctx, testnet.Drop, testnet.MinFrame)
	}
	trial, err := n.withTool(ctx, t, testnet.MinFrame, 0)
	return trial.rate, err
}

// countCost asks xdpcap bench, which runs the counting program on one CPU with nothing around it: count drops no packets, and
// beside what the stack does with them its own few nanoseconds cannot be seen.
func countCost(ctx context.Context, xdpcap string) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, xdpcap, "bench", "--json").Output()
	if err != nil {
		return 0, fmt.Errorf("xdpcap bench: %w", err)
	}
	var result struct {
		Results []struct {
			Variant string  `json:"variant"`
			NS      float64 `json:"ns_per_packet"`
		} `json:"results"`
	}
	if err := json.NewDecoder(bufio.NewReader(bytes.NewReader(out))).Decode(&result); err != nil {
		return 0, fmt.Errorf("xdpcap bench --json: %w", err)
	}
	ns := map[string]float64{}
	for _, r := range result.Results {
		ns[r.Variant] = r.NS
	}
	if ns["empty"] == 0 || ns["percpu"] == 0 {
		return 0, fmt.Errorf("xdpcap bench --json has no figures for empty and percpu: %s", out)
	}
	return ns["percpu"] - ns["empty"], nil
}

func (c costs) print(out io.Writer) {
	fmt.Fprintf(out, `
what a packet costs in the XDP program, nothing being sent (medians of %d, taken in turn):
    filter tcp port 443, matching      %5.1f ns over no filter
    --sample 1000 --sink               %5.0f %% of the rate of an XDP program that only drops
    stats                              %5.1f ns over an empty program
    count                              %5.1f ns over an empty program (xdpcap bench)
`, costRepeats, c.filter, 100*c.sample1000, c.stats, c.count)
	if c.err != nil {
		fmt.Fprintf(out, "    missing figures: %s\n", oneLine(c.err.Error()))
	}
}
