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

// How often two rates are compared, and for how long: what is looked for is a few nanoseconds.
const (
	costRepeats = 15
	costRunTime = 300 * time.Millisecond
)

// costs are what a packet costs in the XDP program itself, where nothing is sent to user space.
type costs struct {
	filter     float64 // ns of `tcp port 443` on a packet that it matches
	sample1000 float64 // the rate with --sample 1000 --sink, as a part of XDP_DROP's
	stats      float64 // ns of stats over an empty program
	count      float64 // ns of count over an empty program
	err        error   // why one is missing: 0
}

func measureCosts(ctx context.Context, n *network, xdpcap string) (c costs, err error) {
	defer func(before time.Duration) { n.runTime = before }(n.runTime)
	n.runTime = costRunTime

	// Nothing is sent, but for one packet in four billion.
	idle := []string{xdpcap, "-i", rxName, "--sink", "--sample", "4000000000", "-w", "/dev/null", "--json"}
	n.frame = testnet.TxToRx().TCP(testnet.Segment{SrcPort: 40000, DstPort: 443})
	without, with, err := n.compare(ctx, "tcp port 443", quietTool(idle...), quietTool(append(idle, "tcp port 443")...))
	n.frame = nil
	if err != nil {
		return c, err
	}
	c.filter = medianAdded(with, without)

	drop, sampled, err := n.compare(ctx, "--sample 1000", nil,
		quietTool(xdpcap, "-i", rxName, "--sink", "--sample", "1000", "-w", "/dev/null", "--json"))
	if err != nil {
		return c, err
	}
	c.sample1000 = medianRatio(sampled, drop)

	drop, counted, err := n.compare(ctx, "stats", nil, quietTool(xdpcap, "stats", "-i", rxName, "--action", "drop", "--yes"))
	if err != nil {
		return c, err
	}
	c.stats = medianAdded(counted, drop)

	progress("count")
	c.count, err = countCost(ctx, xdpcap)
	return c, err
}

// medianAdded is how many nanoseconds more a packet takes at one rate than at the other that was measured with it.
func medianAdded(rates, before []float64) float64 {
	var added []float64
	for i := range rates {
		added = append(added, 1e9/rates[i]-1e9/before[i])
	}
	return median(added)
}

// quietTool is a tool under which packets are dropped, and whose own count is not asked for.
func quietTool(args ...string) *tool {
	return &tool{
		args:     args,
		verdict:  testnet.Drop,
		ready:    "listening on",
		captured: func(string) (uint64, error) { return 0, nil },
	}
}

// compare measures two rates in turn, of unpaced traffic of the shortest frames. Without a tool, nil, packets are dropped by
// the emptiest program there is.
func (n *network) compare(ctx context.Context, what string, a, b *tool) (ratesA, ratesB []float64, err error) {
	for range costRepeats {
		progress("cost of %s", what)
		rateA, err := n.unpaced(ctx, a)
		if err != nil {
			return nil, nil, fmt.Errorf("cost of %s: %w", what, err)
		}
		rateB, err := n.unpaced(ctx, b)
		if err != nil {
			return nil, nil, fmt.Errorf("cost of %s: %w", what, err)
		}
		ratesA, ratesB = append(ratesA, rateA), append(ratesB, rateB)
	}
	return ratesA, ratesB, nil
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
what a packet costs in the XDP program, nothing being sent (median of %d comparisons):
    filter tcp port 443, matching      %5.1f ns over no filter
    --sample 1000 --sink               %5.0f %% of the rate of an XDP program that only drops
    stats                              %5.1f ns over an empty program
    count                              %5.1f ns over an empty program (xdpcap bench)
`, costRepeats, c.filter, 100*c.sample1000, c.stats, c.count)
	if c.err != nil {
		fmt.Fprintf(out, "    missing figures: %s\n", oneLine(c.err.Error()))
	}
}
