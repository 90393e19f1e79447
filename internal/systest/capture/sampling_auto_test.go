package capture_test

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// weightsIn returns the weights of the packets in a file, in order, as read prints them.
func weightsIn(t *testing.T, file string) (weights []uint32) {
	t.Helper()
	for _, k := range systest.Objects[systest.PacketKeys](t, systest.MustRead(t, "--json", file)) {
		weights = append(weights, max(k.Weight, 1))
	}
	return weights
}

// While packets arrive faster than an output accepts them, an adaptive capture keeps some of them,
// and loses hardly any once its rate has adapted. When fewer arrive, it keeps every packet again.
// Each weight is the number of packets that a packet represents.
func TestSampleAuto(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"perf", "ring"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			pair := testnet.MustPair(t, testnet.PairOptions{})
			lines, hurry := slowReader(t)
			file := systest.TempFile(t)
			p := systest.Listening(t, pair.Rx, lines, "-i", pair.RxName, "-w", file, "--print", "--sample", "auto", "--json", "--transport", transport)
			g := testnet.MustGenerator(t, pair)
			stop := flood(t, g, testnet.GeneratorOptions{Frame: testnet.UDPFrame(100, 0), Rate: 200_000})
			// On a busy machine the capture may be without a CPU for longer than its rings can hold
			// packets.
			later := systest.CountsOf(t, p, 400_000)
			testnet.WaitFor(t, "hardly any packets to be lost", func() bool {
				before := later
				later = systest.CountsOf(t, p, before.Seen+200_000)
				lost, kept := later.Lost-before.Lost, later.Captured-before.Captured
				return lost*50 <= kept && kept > 0
			})
			stop()
			testnet.WaitFor(t, "every packet to be kept again", func() bool {
				before := systest.CountsOf(t, p, 0)
				if _, err := g.Run(t.Context(), testnet.GeneratorOptions{Frame: testnet.UDPFrame(100, 0), Rate: 1000, Count: 500}); err != nil {
					t.Fatal(err)
				}
				after := systest.CountsOf(t, p, before.Seen+1)
				return after.NotSampled == before.NotSampled
			})
			hurry()
			s := systest.Account(t, p.Interrupt())
			weights := weightsIn(t, file)
			if len(weights) != int(s.Captured) {
				t.Fatalf("%d packets in the file, %d captured", len(weights), s.Captured)
			}
			most := uint32(0)
			for i, w := range weights {
				if most = max(most, w); len(weights)-i < 100 && w != 1 {
					t.Fatalf("%d packets before the end one stands for %d", len(weights)-i, w)
				}
			}
			if most < 2 || len(s.Notices) != 1 || !strings.Contains(s.Notices[0], "more packets come than can be kept") {
				t.Errorf("the largest weight is %d; notices %q", most, s.Notices)
			}
			e := systest.StatsOf(t, file).Total.Estimate
			t.Logf("%d seen, %d captured, %d lost, estimate %+v, largest weight %d", s.Seen, s.Captured, s.Lost, e, most)
			if s.Lost == 0 {
				systest.CheckEstimate(t, "packets", s.Seen, e.Packets, e.PacketsLow, e.PacketsHigh)
			}
		})
	}
}

// --sample auto lowers the rate for a slow output of any kind. Without it, packets accumulate in
// memory, or the output does not take them.
func TestSampleAutoFollows(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, flags string }{{"stream", "-w tcp://ADDRESS"}, {"lines of JSON", "--format json"}, {"pipe", "-w -"}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			pair := testnet.MustPair(t, testnet.PairOptions{})
			out, hurry := slowReader(t)
			l := listenSmall(t, pair.Rx)
			go func() { // a reader as slow as that of the pipe
				conn, err := l.Accept()
				if err != nil {
					return // the test has no stream
				}
				io.Copy(out, conn)
				conn.Close()
			}()
			p := systest.Listening(t, pair.Rx, out, append(strings.Fields(strings.ReplaceAll(test.flags, "ADDRESS", l.Addr().String())),
				"-i", pair.RxName, "--sample", "auto", "--json", "-B", "32M")...)
			rate := uint64(12_000) // twice the rate of the reader, and little for the CPU, which also affects the rate
			if test.name == "lines of JSON" {
				rate = 30_000 // a line has 400 bytes, a block more than 1,000
			}
			stop := flood(t, testnet.MustGenerator(t, pair), testnet.GeneratorOptions{Frame: testnet.UDPFrame(1000, 0), Rate: float64(rate)})
			later := systest.CountsOf(t, p, rate)
			testnet.WaitFor(t, "the rate to follow the output", func() bool {
				before := later
				later = systest.CountsOf(t, p, before.Seen+rate)
				lost, passed := later.Lost-before.Lost, later.NotSampled-before.NotSampled
				return passed > rate/6 && lost*50 <= passed
			})
			if test.name != "stream" && later.Lost > 0 { // a stream loses packets that its log has no room for, and never stalls the rings
				t.Errorf("%d packets were lost before the rate followed", later.Lost)
			}
			stop()
			hurry()
			systest.Account(t, p.Interrupt())
		})
	}
}

// An adaptive capture aims at --max-rate. Its packets have weights, in its file and as the rates of
// its sFlow samples.
func TestSampleAutoMaxRate(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	l := systest.ListenSFlow(t, pair.Rx)
	file := systest.TempFile(t)
	p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", file, "-w", "sflow://"+l.Address, "--sample", "auto", "--max-rate", "2000", "--json", "-B", "32M")
	const rate = 50_000
	stop := flood(t, testnet.MustGenerator(t, pair), testnet.GeneratorOptions{Frame: testnet.UDPFrame(64, 0), Rate: rate})
	// It aims at a part of the arriving packets. A second is the time of that many packets, because
	// on a busy machine they arrive late, and then faster.
	later := systest.CountsOf(t, p, 1)
	testnet.WaitFor(t, "the rate that was asked for", func() bool {
		before := later
		later = systest.CountsOf(t, p, before.Seen+rate)
		perSecond := rate * float64(later.Captured-before.Captured) / float64(later.Seen-before.Seen)
		t.Logf("%.0f packets per second", perSecond)
		return perSecond >= 500 && perSecond <= 2200
	})
	stop()
	s := systest.Account(t, p.Interrupt())
	if s.Lost != 0 {
		t.Fatalf("%d lost", s.Lost)
	}
	e := systest.StatsOf(t, file).Total.Estimate
	systest.CheckEstimate(t, "packets", s.Seen, e.Packets, e.PacketsLow, e.PacketsHigh)
	var rates []uint32
	for _, s := range systest.SamplesOf(l.Read(t), systest.FlowSample) {
		rates = append(rates, s.Rate)
	}
	if diff := cmp.Diff(weightsIn(t, file), rates); diff != "" {
		t.Errorf("weights (-) and rates of sFlow samples (+): %s", diff)
	}
}

// flood sends frames until stop is called, which returns how many.
func flood(t *testing.T, g *testnet.Generator, o testnet.GeneratorOptions) (stop func() (sent uint64)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	var r testnet.Result
	go func() {
		var err error
		r, err = g.Run(ctx, o)
		done <- err
	}()
	return func() uint64 {
		t.Helper()
		cancel()
		testnet.Must(t, <-done)
		return r.Sent
	}
}
