package testnet

import (
	"context"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

func run(tb testing.TB, g *Generator, opts GeneratorOptions) Result {
	tb.Helper()
	r, err := g.Run(context.Background(), opts)
	if err != nil {
		tb.Fatal(err)
	}
	if r.Sent != opts.Count {
		tb.Errorf("sent %d frames, want %d", r.Sent, opts.Count)
	}
	return r
}

// checkReceived waits until the frames of a pair's only run have arrived, and compares what the
// receiver counted with what was delivered. The numbers may only have gaps if some frames were not
// delivered.
func checkReceived(tb testing.TB, p *Pair, r *Receiver, sent, size uint64) {
	tb.Helper()
	delivered := WaitArrived(tb, p, PairStats{}, sent)
	want := Counts{Packets: delivered, Bytes: delivered * size}
	got := total(tb, r)
	if delivered != sent {
		got.Gaps = 0
	}
	if diff := cmp.Diff(want, got); diff != "" {
		tb.Errorf("receiver of %d frames: %s", sent, diff)
	}
}

func TestGeneratorLosesNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		size    int
		count   uint64
		verdict xdp.Verdict
	}{
		{"drop 60", 60, 1_000_000, xdp.Drop},
		{"drop 1514", 1514, 300_000, xdp.Drop},
		{"drop largest", maxLiveFrame, 100_000, xdp.Drop},
		{"pass 60", 60, 200_000, xdp.Pass},
	} {
		if c.count = Volume(c.count); testing.Short() {
			c.count /= 10
		}
		t.Run(c.name, func(t *testing.T) {
			p := MustPair(t, PairOptions{MTU: 3498})
			receiver := MustReceiver(t, p, c.verdict, ReceiverOptions{Sequence: true})
			g := MustGenerator(t, p)
			r := run(t, g, GeneratorOptions{Frame: UDPFrame(c.size, 0), Count: c.count, Flows: 7})
			t.Logf("%.2f Mpps", r.Rate()/1e6)

			checkReceived(t, p, receiver, c.count, uint64(c.size))
			if s := MustStats(t, p); s.Dropped != 0 && !Emulated() {
				t.Errorf("of %d frames %d found the queue full", c.count, s.Dropped)
			}
		})
	}
}

func TestGeneratorNumbersRunOn(t *testing.T) {
	t.Parallel()
	p := MustPair(t, PairOptions{})
	receiver := MustReceiver(t, p, xdp.Drop, ReceiverOptions{Sequence: true})
	g := MustGenerator(t, p)
	if err := g.SetSequence(1 << 40); err != nil {
		t.Fatal(err)
	}
	next := uint64(1 << 40)
	for _, n := range []uint64{1, 1000, 77} {
		r := run(t, g, GeneratorOptions{Frame: UDPFrame(MinFrame, 0), Count: n})
		if r.First != next {
			t.Errorf("run begins with number %d, want %d", r.First, next)
		}
		next += n
	}
	checkReceived(t, p, receiver, 1078, MinFrame)
}

func TestGeneratorsOnTwoCPUs(t *testing.T) {
	t.Parallel()
	if runtime.NumCPU() < 2 {
		skip(t, "needs two CPUs")
	}
	count := Volume(500_000)
	p := MustPair(t, PairOptions{Queues: 2})
	receiver := MustReceiver(t, p, xdp.Drop, ReceiverOptions{Sequence: true})
	var group sync.WaitGroup
	for cpu := range 2 {
		g := MustGenerator(t, p)
		if err := g.SetSequence(uint64(cpu) << 32); err != nil {
			t.Fatal(err)
		}
		group.Go(func() {
			_, err := g.Run(context.Background(), GeneratorOptions{Frame: UDPFrame(MinFrame, 0), Count: count, CPU: cpu})
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if delivered := WaitArrived(t, p, PairStats{}, 2*count); delivered != 2*count {
		if got := total(t, receiver); got.Packets != delivered {
			t.Errorf("receiver counted %+v, want %d packets", got, delivered)
		}
		return
	}
	got, err := receiver.Counts()
	if err != nil {
		t.Fatal(err)
	}
	want := Counts{Packets: count, Bytes: count * MinFrame}
	for cpu := range 2 {
		if diff := cmp.Diff(want, got[cpu]); diff != "" {
			t.Errorf("receiver on CPU %d: %s", cpu, diff)
		}
	}
}

// Runs alone in its package, because it measures rates.
func TestGeneratorKeepsPace(t *testing.T) {
	for _, c := range []struct {
		name  string
		rate  float64
		count uint64
	}{
		{"100 pps, slower than a round", 100, 50},
		{"10 kpps", 10e3, 5_000},
		{"200 kpps", 200e3, 100_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			least := 0.75 * c.rate
			if Emulated() {
				least = 0.5 * c.rate
				if c.rate > Rate(c.rate) {
					t.Skip("an emulated machine does not keep this pace")
				}
			}
			p := MustPair(t, PairOptions{})
			receiver := MustReceiver(t, p, xdp.Drop, ReceiverOptions{Sequence: true})
			g := MustGenerator(t, p)
			// No run may be faster than asked. Other load on the machine may delay the last frame
			// of a run, and so lower its rate: it is enough if one run reaches the rate.
			var sent uint64
			best := 0.0
			for try := 0; try < 5 && best < least; try++ {
				r := run(t, g, GeneratorOptions{Frame: UDPFrame(MinFrame, 0), Count: c.count, Rate: c.rate})
				sent += r.Sent
				t.Logf("%.1f pps", r.Rate())
				if most := 1.001 * c.rate; r.Rate() > most {
					t.Errorf("rate %.1f pps, want at most %.1f", r.Rate(), most)
				}
				best = max(best, r.Rate())
			}
			if best < least {
				t.Errorf("best rate %.1f pps, want at least %.1f", best, least)
			}
			checkReceived(t, p, receiver, sent, MinFrame)
		})
	}
}

func TestGeneratorStops(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{0, 10, 50e3} {
		p := MustPair(t, PairOptions{})
		receiver := MustReceiver(t, p, xdp.Drop, ReceiverOptions{Sequence: true})
		g := MustGenerator(t, p)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var r Result
		ended := make(chan error, 1)
		go func() {
			var err error
			r, err = g.Run(ctx, GeneratorOptions{Frame: UDPFrame(MinFrame, 0), Rate: rate})
			ended <- err
		}()
		WaitFor(t, "the first frame", func() bool { return total(t, receiver).Packets > 0 })
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(Patience):
			t.Fatalf("at rate %v: Run goes on after its context's end", rate)
		}
		checkReceived(t, p, receiver, r.Sent, MinFrame)
	}
}

// A signal ends the system call after some of the frames. The rest must follow, and no frame twice.
// It runs alone, because the signals would interrupt the system calls of other tests, too.
func TestGeneratorGoesOnAfterSignals(t *testing.T) {
	const count = 50_000
	p := MustPair(t, PairOptions{})
	receiver := MustReceiver(t, p, xdp.Drop, ReceiverOptions{Sequence: true})
	g := MustGenerator(t, p)
	over := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for {
			select {
			case <-over:
				return
			case <-time.After(60 * time.Millisecond):
			}
			threads, err := os.ReadDir("/proc/self/task")
			if err != nil {
				t.Error(err)
				return
			}
			for _, thread := range threads {
				if id, err := strconv.Atoi(thread.Name()); err == nil {
					unix.Tgkill(os.Getpid(), id, stopSignal)
				}
			}
		}
	})
	run(t, g, GeneratorOptions{Frame: UDPFrame(MinFrame, 0), Count: count, Rate: 100e3})
	close(over)
	group.Wait()
	checkReceived(t, p, receiver, count, MinFrame)
}

func TestGeneratorNeedsOnlyGRO(t *testing.T) {
	t.Parallel()
	p := MustPair(t, PairOptions{GRO: true})
	g := MustGenerator(t, p)
	frame := VLAN(TxToRx().ARPRequest(), 5)
	run(t, g, GeneratorOptions{Frame: frame, Raw: true, Count: 1000})
	if delivered := WaitArrived(t, p, PairStats{}, 1000); delivered == 0 {
		t.Error("of 1000 frames none arrived")
	}
}

func TestGeneratorRefuses(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]GeneratorOptions{
		"empty":        {Count: 1},
		"too large":    {Frame: UDPFrame(MaxFrame, 0), Count: 1},
		"not numbered": {Frame: TxToRx().ARPRequest(), Count: 1},
		"batch":        {Frame: UDPFrame(MinFrame, 0), Batch: 257},
		"rate":         {Frame: UDPFrame(MinFrame, 0), Rate: -1},
	} {
		if opts.check() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
