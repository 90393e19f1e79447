package capture_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// Each verdict has a rate of its own, and each packet says how many it stands for. Packets with a
// verdict that is not named are all kept.
func TestSampleVerdicts(t *testing.T) {
	t.Parallel()
	for i, transport := range []string{"perf", "ring"} {
		if testnet.Shared(i) {
			t.Run("hook map, "+transport, func(t *testing.T) {
				pair := testnet.MustPair(t, testnet.PairOptions{})
				hook := systest.PinHook(t, systest.AttachTarget(t, pair, testnet.Hooked).Hook())
				testSampleVerdicts(t, pair, "--transport", transport, "--hook", hook)
			})
		}
		if testnet.Shared(i + 1) {
			t.Run("exit, "+transport, func(t *testing.T) {
				testnet.RequireFentry(t)
				pair := testnet.MustPair(t, testnet.PairOptions{})
				systest.AttachTarget(t, pair, testnet.Rewriting)
				testSampleVerdicts(t, pair, "--transport", transport, "-i", pair.RxName)
			})
		}
	}
}

func testSampleVerdicts(t *testing.T, pair *testnet.Pair, args ...string) {
	file := systest.TempFile(t)
	p := systest.Listening(t, pair.Rx, nil, append(args, "-w", file, "--json", "--sample", "drop=1,pass=20,aborted=7")...)
	sent := map[string]int{"drop": 30, "aborted": 70, "tx": 10, "pass": 200}
	ports := map[string]uint16{"drop": 9, "aborted": 10, "tx": 11, "pass": 443}
	var frames [][]byte
	for verdict, n := range sent {
		for range n {
			frames = append(frames, testnet.TxToRx().UDP(1000, ports[verdict], []byte("payload")))
		}
	}
	testnet.Send(t, pair, frames...)
	s := systest.Account(t, p.Interrupt())
	if s.Seen != uint64(len(frames)) || s.Lost != 0 || s.Seen != s.Captured+s.NotSampled {
		t.Errorf("summary %+v", s)
	}
	kept, weights := map[string]int{}, map[string]uint32{}
	for _, packet := range systest.ReadTraced(t, file) {
		verdict := capture.Verdict(packet.Verdict).String()
		kept[verdict]++
		weight := uint32(1)
		for _, comment := range packet.Comments {
			fmt.Sscanf(comment, "weight %d", &weight)
		}
		weights[verdict] = weight
	}
	if diff := cmp.Diff(map[string]uint32{"drop": 1, "tx": 1, "aborted": 7, "pass": 20}, weights); diff != "" {
		t.Errorf("weights: %s", diff)
	}
	for verdict, n := range sent {
		oneIn := int(weights[verdict])
		more := 0
		if oneIn > 1 {
			more = runtime.NumCPU() // each CPU has groups of its own
		}
		if got := kept[verdict]; got < n/oneIn-more || got > n/oneIn+more {
			t.Errorf("%d of %d packets with the verdict %s are kept, want one of %d", got, n, verdict, oneIn)
		}
	}
	if testnet.Emulated() {
		return // what reads the file is the same on every kernel
	}
	r := systest.StatsOf(t, file)
	for verdict, n := range sent {
		e := r.Verdicts[verdict].Estimate
		systest.CheckEstimate(t, verdict, uint64(n), e.Packets, e.PacketsLow, e.PacketsHigh)
	}
	info := systest.OutputOf(t, "capinfos", file)
	if want := "one of every 7 with the verdict aborted, one of every 1 with the verdict drop, one of every 20 with the verdict pass, at random, and all packets with another verdict"; !strings.Contains(info, want) {
		t.Errorf("the file does not say how it was sampled:\n%s", info)
	}
	lines := systest.MustRead(t, "-v", file)
	if n := strings.Count(lines, ", weight 20)"); n != kept["pass"] {
		t.Errorf("%d lines have the weight 20, want %d:\n%s", n, kept["pass"], lines)
	}
	out := systest.OutputOf(t, "tshark", "-r", file, "-Y", `frame.comment == "weight 20"`, "-T", "fields", "-e", "frame.number")
	if n := strings.Count(out, "\n"); n != kept["pass"] {
		t.Errorf("tshark finds %d packets of weight 20, want %d", n, kept["pass"])
	}
}
