package main

import (
	"context"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// Whole flows only, about one in N of them.
func TestSampleFlows(t *testing.T) {
	pair := newPair(t, testnet.PairOptions{})
	file := tempFile(t)
	p := listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", file, "--sample-flows", "10", "--json")
	const flows, packets = 10_000, 4
	generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(64, 0), Count: flows * packets, Flows: flows})
	s := account(t, p.interrupt())
	if arrived := delivered(t, pair, flows*packets); arrived < flows*packets {
		t.Skip("an emulated machine's receive queue dropped packets before XDP")
	}
	if s.Seen != flows*packets || s.Lost != 0 {
		t.Errorf("summary %+v", s)
	}
	records, _ := readFile(t, file)
	seen := map[string]int{}
	for _, rec := range records {
		seen[string(rec.data[34:36])]++ // the source port
	}
	for port, n := range seen {
		if n != packets {
			t.Errorf("flow %x: %d packets, want %d", port, n, packets)
		}
	}
	if sigma := math.Sqrt(flows * 0.1 * 0.9); math.Abs(float64(len(seen))-flows*0.1) > 5*sigma {
		t.Errorf("%d of %d flows", len(seen), flows)
	}
	if info := outputOf(t, "capinfos", file); !strings.Contains(info, "all packets of one flow in 10") {
		t.Errorf("the file does not say how it was sampled:\n%s", info)
	}
}

// Far more than the rate arrives: once the first second's savings are spent, within 5 % of the rate is
// kept, and all is accounted for.
func TestMaxRate(t *testing.T) {
	pair := newPair(t, testnet.PairOptions{})
	file := tempFile(t)
	p := listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", file, "--max-rate", "1000", "--json")
	g, err := testnet.NewGenerator(pair)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	r, err := g.Run(ctx, testnet.GeneratorOptions{Frame: testnet.UDPFrame(64, 0), Rate: 1e6})
	if err != nil {
		t.Fatal(err)
	}
	waitTaken(t, pair, r.Sent)
	if s := account(t, p.interrupt()); s.Seen != delivered(t, pair, r.Sent) || s.Lost != 0 {
		t.Errorf("%d sent, summary %+v", r.Sent, s)
	}
	records, _ := readFile(t, file)
	last := records[len(records)-1].ci.Timestamp
	begin := records[0].ci.Timestamp.Add(200 * time.Millisecond)
	n := 0
	for _, rec := range records {
		if rec.ci.Timestamp.After(begin) {
			n++
		}
	}
	if rate := float64(n) / last.Sub(begin).Seconds(); rate < 950 || rate > 1050 {
		t.Errorf("%.0f packets per second over %v", rate, last.Sub(begin))
	}
}

func TestFirst(t *testing.T) {
	pair := newPair(t, testnet.PairOptions{})
	p := listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", os.DevNull, "--first", "3", "--json")
	generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(64, 0), Count: 10_000, Flows: 100})
	if s := account(t, p.interrupt()); s.Captured != 300 || s.NotSampled != 9_700 {
		t.Errorf("summary %+v", s)
	}
}
