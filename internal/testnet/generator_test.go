package testnet

import (
	"context"
	"math"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

func newGenerator(tb testing.TB, p *Pair) *Generator {
	tb.Helper()
	RequireLiveFrames(tb)
	g, err := NewGenerator(p)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := g.Close(); err != nil {
			tb.Error(err)
		}
	})
	return g
}

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

func TestGeneratorLosesNothing(t *testing.T) {
	for _, c := range []struct {
		name    string
		size    int
		count   uint64
		verdict xdp.Verdict
	}{
		{"drop 60", 60, 1_000_000, xdp.Drop},
		{"drop 1514", 1514, 300_000, xdp.Drop},
		{"drop largest", MaxLiveFrame, 100_000, xdp.Drop},
		{"pass 60", 60, 200_000, xdp.Pass},
	} {
		c.count = Volume(c.count)
		t.Run(c.name, func(t *testing.T) {
			p := newPair(t, PairOptions{MTU: 3498})
			v := attach(t, p, c.verdict, ReceiverOptions{Sequence: true})
			g := newGenerator(t, p)
			r := run(t, g, GeneratorOptions{Frame: UDPFrame(c.size, 0), Count: c.count, Flows: 7})
			t.Logf("%.2f Mpps", r.Rate()/1e6)

			count := arrived(t, p, c.count)
			want := Counts{Packets: count, Bytes: count * uint64(c.size)}
			got := waitFor(t, v, count)
			if count != c.count {
				got.Gaps = 0
			}
			if got != want {
				t.Errorf("receiver counted %+v, want %+v", got, want)
			}
			s, err := p.Stats()
			if err != nil {
				t.Fatal(err)
			}
			if want := (PairStats{Delivered: count, Dropped: c.count - count}); s != want {
				t.Errorf("pair counted %+v, want %+v", s, want)
			}
		})
	}
}

func TestGeneratorNumbersRunOn(t *testing.T) {
	p := newPair(t, PairOptions{})
	v := attach(t, p, xdp.Drop, ReceiverOptions{Sequence: true})
	g := newGenerator(t, p)
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
	want := Counts{Packets: 1078, Bytes: 1078 * MinFrame}
	if got := waitFor(t, v, want.Packets); got != want {
		t.Errorf("receiver counted %+v, want %+v", got, want)
	}
}

func TestGeneratorsOnTwoCPUs(t *testing.T) {
	if runtime.NumCPU() < 2 {
		skip(t, "needs two CPUs")
	}
	count := Volume(500_000)
	p := newPair(t, PairOptions{Queues: 2})
	v := attach(t, p, xdp.Drop, ReceiverOptions{Sequence: true})
	var group sync.WaitGroup
	for cpu := range 2 {
		g := newGenerator(t, p)
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
	if n := arrived(t, p, 2*count); n != 2*count {
		if got := waitFor(t, v, n); got.Packets != n {
			t.Errorf("receiver counted %+v, want %d packets", got, n)
		}
		return
	}
	waitFor(t, v, 2*count)
	got, err := v.Counts()
	if err != nil {
		t.Fatal(err)
	}
	want := Counts{Packets: count, Bytes: count * MinFrame}
	for cpu := range 2 {
		if got[cpu] != want {
			t.Errorf("receiver counted %+v on CPU %d, want %+v", got[cpu], cpu, want)
		}
	}
}

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
			within := 0.05
			if Emulated() {
				within = 0.5
				if c.rate > Rate(c.rate) {
					t.Skip("an emulated machine does not keep this pace")
				}
			}
			p := newPair(t, PairOptions{})
			v := attach(t, p, xdp.Drop, ReceiverOptions{Sequence: true})
			g := newGenerator(t, p)
			// Other load on the machine may delay the last frame of a run,
			// and with it the rate: one undisturbed run is enough.
			var sent uint64
			for try := range 5 {
				r := run(t, g, GeneratorOptions{Frame: UDPFrame(MinFrame, 0), Count: c.count, Rate: c.rate})
				sent += r.Sent
				t.Logf("%.1f pps", r.Rate())
				if math.Abs(r.Rate()-c.rate) <= c.rate*within {
					break
				}
				if try == 4 {
					t.Errorf("rate %.0f pps, want %.0f within %.0f %%", r.Rate(), c.rate, 100*within)
				}
			}
			if got := waitFor(t, v, sent); got.Packets != sent || got.Gaps != 0 {
				t.Errorf("receiver counted %+v, want %d packets", got, sent)
			}
		})
	}
}

func TestGeneratorStops(t *testing.T) {
	for _, rate := range []float64{0, 10, 50e3} {
		p := newPair(t, PairOptions{})
		v := attach(t, p, xdp.Drop, ReceiverOptions{Sequence: true})
		g := newGenerator(t, p)
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		defer cancel()
		begin := time.Now()
		r, err := g.Run(ctx, GeneratorOptions{Frame: UDPFrame(MinFrame, 0), Rate: rate})
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took > 10*time.Second {
			t.Errorf("at rate %v: Run took %v after its context's 200ms", rate, took)
		}
		n := arrived(t, p, r.Sent)
		if got := waitFor(t, v, n); r.Sent == 0 || got.Packets != n || n == r.Sent && got.Gaps != 0 {
			t.Errorf("at rate %v: sent %d, receiver counted %+v", rate, r.Sent, got)
		}
	}
}

// A signal ends the system call after some of the frames; the rest must follow,
// and only the rest.
func TestGeneratorGoesOnAfterSignals(t *testing.T) {
	const count = 50_000
	p := newPair(t, PairOptions{})
	v := attach(t, p, xdp.Drop, ReceiverOptions{Sequence: true})
	g := newGenerator(t, p)
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
	r := run(t, g, GeneratorOptions{Frame: UDPFrame(MinFrame, 0), Count: count, Rate: 100e3})
	close(over)
	group.Wait()
	n := arrived(t, p, count)
	want := Counts{Packets: n, Bytes: n * MinFrame}
	got := waitFor(t, v, n)
	if n != count {
		got.Gaps = 0
	}
	if got != want {
		t.Errorf("receiver counted %+v, want %+v; result %+v", got, want, r)
	}
}

func TestGeneratorNeedsOnlyGRO(t *testing.T) {
	p := newPair(t, PairOptions{GRO: true})
	g := newGenerator(t, p)
	frame := VLAN(TxToRx().ARPRequest(), 5)
	run(t, g, GeneratorOptions{Frame: frame, Raw: true, Count: 1000})
	deadline := time.Now().Add(5 * time.Second)
	for {
		s, err := p.Stats()
		if err != nil {
			t.Fatal(err)
		}
		if s == (PairStats{Delivered: 1000}) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("pair counted %+v, want 1000 delivered", s)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestGeneratorRefuses(t *testing.T) {
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

// BenchmarkGenerator gives the limit that a capture is measured against.
func BenchmarkGenerator(b *testing.B) {
	for _, c := range []struct {
		name    string
		size    int
		verdict xdp.Verdict
		opts    ReceiverOptions
		batch   int
	}{
		{"drop/60", 60, xdp.Drop, ReceiverOptions{}, 0},
		{"drop/1514", 1514, xdp.Drop, ReceiverOptions{}, 0},
		{"drop-count/60", 60, xdp.Drop, ReceiverOptions{Count: true}, 0},
		{"pass/60", 60, xdp.Pass, ReceiverOptions{}, 0},
		{"pass/1514", 1514, xdp.Pass, ReceiverOptions{}, 0},
		{"drop/60/batch=1", 60, xdp.Drop, ReceiverOptions{}, 1},
		{"drop/60/batch=16", 60, xdp.Drop, ReceiverOptions{}, 16},
		{"drop/60/batch=128", 60, xdp.Drop, ReceiverOptions{}, 128},
		{"drop/60/batch=256", 60, xdp.Drop, ReceiverOptions{}, 256},
	} {
		b.Run(c.name, func(b *testing.B) {
			p := newPair(b, PairOptions{})
			attach(b, p, c.verdict, c.opts)
			g := newGenerator(b, p)
			b.ResetTimer()
			r := run(b, g, GeneratorOptions{Frame: UDPFrame(c.size, 0), Count: uint64(b.N), Batch: c.batch})
			b.ReportMetric(r.Rate()/1e6, "Mpps")
			s, err := p.Stats()
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(100*float64(s.Dropped)/float64(b.N), "%dropped")
		})
	}
}
