package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/xdpcap/xdpcap/filter"
	filterebpf "github.com/xdpcap/xdpcap/filter/ebpf"
	"github.com/xdpcap/xdpcap/internal/clock"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// How often two rates are compared, and for how long each is measured: long enough to see a
// difference of a few nanoseconds per packet.
const (
	costRepeats = 15
	costRunTime = 300 * time.Millisecond
)

// costs are what one packet costs in the XDP program itself, when nothing is sent to user space.
type costs struct {
	filter     float64 // ns of `tcp port 443` on a packet that it matches
	sample1000 float64 // the rate with --sample 1000 --sink, divided by the rate of XDP_DROP
	stats      float64 // ns of stats over an empty program
	count      float64 // ns of count over an empty program
	err        error   // why a figure is missing, which is 0 then
}

func measureCosts(ctx context.Context, n *network, xdpcap string) (c costs, err error) {
	defer func(before time.Duration) { n.runTime = before }(n.runTime)
	n.runTime = costRunTime

	progress("cost of a filter")
	if c.filter, err = filterCost("tcp port 443"); err != nil {
		return c, err
	}
	drop, sampled, err := n.compare(ctx, "--sample 1000", nil,
		quietTool(xdpcap, "-i", rxName, "--sink", "--sample", "1000", "-w", "/dev/null"))
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

// medianAdded returns by how many nanoseconds more a packet takes at rates[i] than at before[i],
// the median of all i.
func medianAdded(rates, before []float64) float64 {
	var added []float64
	for i := range rates {
		added = append(added, 1e9/rates[i]-1e9/before[i])
	}
	return median(added)
}

// quietTool returns a tool under which packets are dropped, and whose own count is not read.
func quietTool(args ...string) *tool {
	return &tool{
		args:     args,
		verdict:  xdp.Drop,
		ready:    "listening on",
		captured: func(string) (uint64, error) { return 0, nil },
	}
}

// compare measures two rates in turn, of unpaced traffic of the shortest frames. Where a tool is
// nil, the emptiest program there is drops the packets.
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
		return n.withoutTool(ctx, xdp.Drop, testnet.MinFrame)
	}
	trial, err := n.withTool(ctx, t, testnet.MinFrame, 0)
	return trial.rate, err
}

// filterCost returns what an expression costs, in nanoseconds, on a TCP segment that it matches by
// the destination port. It compares an XDP program that runs the filter with one that does not.
// BPF_PROG_RUN runs them, because a few nanoseconds cannot be seen beside the other work on a
// packet. The shortest of many runs of each counts, because other work on the machine can only make
// a run longer.
func filterCost(expr string) (float64, error) {
	const runs, packets = 40, 1_000_000
	classic, err := filter.CompileRaw(expr, filter.Options{})
	if err != nil {
		return 0, err
	}
	body, err := filterebpf.Translate(classic)
	if err != nil {
		return 0, err
	}
	body[0] = body[0].WithSymbol("filter")
	drop := asm.Instructions{asm.Mov.Imm(asm.R0, int32(xdp.Drop)), asm.Return()}
	programs := []asm.Instructions{drop, slices.Concat(asm.Instructions{asm.Call.Label("filter")}, drop, body)}
	packet := testnet.TxToRx().TCP(testnet.Segment{SrcPort: 40000, DstPort: 443})

	least := make([]time.Duration, len(programs))
	loaded := make([]*ebpf.Program, len(programs))
	for i, instructions := range programs {
		p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, Instructions: instructions, License: "Dual BSD/GPL"})
		if err != nil {
			return 0, fmt.Errorf("cost of %s: %w", expr, err)
		}
		defer p.Close()
		loaded[i] = p
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// The runs are measured in CPU time, because the kernel waits some milliseconds before it runs
	// an XDP program.
	for run := range runs {
		for i, p := range loaded {
			before, err := clock.ThreadTime()
			if err != nil {
				return 0, err
			}
			if _, err := p.Run(&ebpf.RunOptions{Data: packet, Repeat: packets}); err != nil {
				return 0, fmt.Errorf("cost of %s: %w", expr, err)
			}
			after, err := clock.ThreadTime()
			if err != nil {
				return 0, err
			}
			if took := after - before; run == 0 || took < least[i] {
				least[i] = took
			}
		}
	}
	return float64(least[1]-least[0]) / packets, nil
}

// countCost runs xdpcap bench, which runs the counting program alone on one CPU. count cannot be
// measured with traffic: it passes packets to the stack, beside whose work a few nanoseconds cannot
// be seen.
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
    --sample 1000 --sink               %5.0f %% of the rate of an XDP program that only drops
    stats                              %5.1f ns over an empty program
and by BPF_PROG_RUN, with nothing around it:
    filter tcp port 443, matching      %5.1f ns over no filter (the least of many runs)
    count                              %5.1f ns over an empty program (xdpcap bench)
`, costRepeats, 100*c.sample1000, c.stats, c.filter, c.count)
	if c.err != nil {
		fmt.Fprintf(out, "    missing figures: %s\n", oneLine(c.err.Error()))
	}
}
