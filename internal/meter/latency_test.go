package meter

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// The buckets follow each other without a gap, and none is wider than 1/32 of its lower bound.
func TestBuckets(t *testing.T) {
	var next time.Duration
	for i := range buckets {
		from, to := bucketBounds(i)
		if from != next || to <= from || (from >= 32 && float64(to-from)/float64(from) > 1.0/32) {
			t.Fatalf("bucket %d is %d to %d, behind %d", i, from, to, next)
		}
		if bucketOf(from) != i || bucketOf(to-1) != i {
			t.Fatalf("bucket %d: %d is in %d, %d in %d", i, from, bucketOf(from), to-1, bucketOf(to-1))
		}
		next = to
	}
	if next != 1<<maxBits || bucketOf(next) != buckets-1 || bucketOf(math.MaxInt64) != buckets-1 {
		t.Errorf("they end at %d", next)
	}
}

// replayer counts values with the code of the kernel's side, without any traffic.
func newReplayer(t *testing.T) (l *Latency, replay func(d time.Duration, v uint32) (bucket int)) {
	t.Helper()
	testnet.RequireRoot(t)
	spec, err := loadLatency()
	if err != nil {
		t.Fatal(err)
	}
	l = &Latency{}
	t.Cleanup(func() { l.Close() })
	if l.histograms, err = l.newMap(spec, latencyMapHistograms); err != nil {
		t.Fatal(err)
	}
	prog, err := loadProgram(spec, latencyProgReplay, map[string]**ebpf.Map{latencyMapHistograms: &l.histograms})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { prog.Close() })
	var in [16]byte
	return l, func(d time.Duration, v uint32) int {
		binary.LittleEndian.PutUint64(in[:], uint64(d))
		binary.LittleEndian.PutUint64(in[8:], uint64(v))
		bucket, err := prog.Run(&ebpf.RunOptions{Context: in[:]})
		if err != nil {
			t.Fatal(err)
		}
		return int(bucket)
	}
}

// The kernel's side puts each value where this side looks for it.
func TestBucketsInKernel(t *testing.T) {
	_, replay := newReplayer(t)
	check := func(d time.Duration) {
		if got := replay(d, 0); got != bucketOf(d) {
			t.Fatalf("%d ns is in bucket %d, and here in %d", d, got, bucketOf(d))
		}
	}
	for i := range buckets {
		from, to := bucketBounds(i)
		check(from)
		check(to - 1)
	}
	for shift := range 63 {
		check(1<<shift - 1)
		check(1 << shift)
	}
}

// Percentiles of known distributions, counted in the kernel, are within 3 % of the true ones, and what is
// exact is exact.
func TestQuantiles(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for name, draw := range map[string]func() float64{
		"constant":    func() float64 { return 1000 },
		"uniform":     func() float64 { return 50 + 100*r.Float64() },
		"exponential": func() float64 { return 20 + 400*r.ExpFloat64() },
		"log-normal":  func() float64 { return math.Exp(6 + 1.5*r.NormFloat64()) },
		"two modes":   func() float64 { return []float64{80, 90_000}[r.IntN(2)] * (1 + r.Float64()/10) },
	} {
		t.Run(name, func(t *testing.T) {
			l, replay := newReplayer(t)
			values := make([]time.Duration, 5000)
			var sum time.Duration
			for i := range values {
				values[i] = time.Duration(draw())
				sum += values[i]
				replay(values[i], uint32(i%7))
			}
			slices.Sort(values)
			c, err := l.read()
			if err != nil {
				t.Fatal(err)
			}
			h := c.Total()
			if h.Count != 5000 || h.Sum != sum || h.Min != values[0] || h.Max != values[4999] {
				t.Errorf("count %d, sum %d, min %d, max %d", h.Count, h.Sum, h.Min, h.Max)
			}
			var cpus Histogram
			for i := range c.CPUs {
				cpus.Add(&c.CPUs[i])
			}
			if cpus != h || len(c.CPUs) != ebpf.MustPossibleCPU() {
				t.Errorf("%d CPUs have %d values", len(c.CPUs), cpus.Count)
			}
			// 5 and 6 are no verdicts.
			if n := c.Verdict(xdp.UnknownVerdict).Count; n != 5000/7*2 {
				t.Errorf("%d unknown", n)
			}
			for _, q := range []float64{0, 0.01, 0.5, 0.9, 0.99, 0.999, 1} {
				want := values[max(int(math.Ceil(q*5000))-1, 0)]
				got := h.Quantile(q)
				if math.Abs(float64(got-want)) > 0.03*float64(want) {
					t.Errorf("quantile %v is %d, want %d", q, got, want)
				}
			}
			below := h.Below(1024)
			if want, _ := slices.BinarySearch(values, 1024); below != uint64(want) {
				t.Errorf("%d below 1024 ns, want %d", below, want)
			}
		})
	}
}

func TestEmptyHistogram(t *testing.T) {
	var h Histogram
	if h.Quantile(0.5) != 0 || h.Mean() != 0 || h.Below(time.Second) != 0 {
		t.Error("something from nothing")
	}
}

// generate sends frames, and returns how many the receiver's program has seen when it has seen them all. A
// slow machine's ring may be full for some.
func generate(t *testing.T, pair *testnet.Pair, count uint64) (seen uint64) {
	t.Helper()
	testnet.RequireLiveFrames(t)
	g, err := testnet.NewGenerator(pair)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := g.Run(ctx, testnet.GeneratorOptions{Frame: testnet.UDPFrame(testnet.MinFrame, 0), Count: count, CPU: -1})
	if err != nil || r.Sent != count {
		t.Fatalf("sent %d: %v", r.Sent, err)
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		s, err := pair.Stats()
		if err != nil {
			t.Fatal(err)
		}
		if s.Delivered+s.Dropped == count {
			return s.Delivered
		}
		if time.Now().After(deadline) {
			t.Fatalf("of %d frames %+v", count, s)
		}
	}
}

// Our own program measures each packet once, drops the share that it was told, and each measurement is
// handed over or counted as lost.
func TestBuiltin(t *testing.T) {
	for _, drop := range []float64{0, 0.3, 1} {
		n := newNetwork(t)
		var events, dropped atomic.Uint64
		var strange atomic.Pointer[Measurement]
		began := time.Now()
		l := openIn(t, n.pair.Rx, func() (*Latency, error) {
			return OpenBuiltin(n.pair.RxName, BuiltinOptions{Drop: drop, Event: func(m Measurement) {
				events.Add(1)
				if m.Verdict == xdp.Drop {
					dropped.Add(1)
				}
				if m.Took <= 0 || m.Took > time.Second || m.Time.Sub(began).Abs() > patience || (m.Verdict != xdp.Drop && m.Verdict != xdp.Pass) {
					strange.Store(&m)
				}
			}})
		})
		sent := generate(t, n.pair, 100_000)
		var c LatencyCounts
		err := n.pair.Rx.Do(func() (err error) {
			c, err = l.Read()
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		total := c.Total()
		drops := c.Verdict(xdp.Drop).Count
		if total.Count != sent || drops+c.Verdict(xdp.Pass).Count != sent {
			t.Errorf("%d runs of %d, %d dropped", total.Count, sent, drops)
		}
		sigma := math.Sqrt(float64(sent) * drop * (1 - drop))
		if math.Abs(float64(drops)-float64(sent)*drop) > 5*sigma {
			t.Errorf("%d dropped, want %v within %v", drops, float64(sent)*drop, 5*sigma)
		}
		if events.Load()+c.Lost != sent || events.Load() == 0 {
			t.Errorf("%d measurements handed over, %d lost, of %d", events.Load(), c.Lost, sent)
		}
		if c.Lost == 0 && dropped.Load() != drops {
			t.Errorf("%d dropped, and as measured %d", drops, dropped.Load())
		}
		if m := strange.Load(); m != nil {
			t.Errorf("measured %+v", *m)
		}
		if total.Min <= 0 || total.Min > total.Quantile(0.5) || total.Quantile(0.5) > total.Max || total.Sum < total.Min*time.Duration(sent) {
			t.Errorf("min %v, median %v, max %v, sum %v", total.Min, total.Quantile(0.5), total.Max, total.Sum)
		}
	}
}

// The kernel's counters are those of the attached program, from when they were asked for.
func TestRuntime(t *testing.T) {
	n := newNetwork(t)
	n.attach(verdict(int32(xdp.Drop)))
	var readers [2]*Runtime
	for i := range readers {
		readers[i] = openIn(t, n.pair.Rx, func() (*Runtime, error) { return OpenRuntime(n.pair.RxName) })
		n.send(frames) // only the first one is there for the first of these
	}
	for i, r := range readers {
		defer r.Close()
		var c RuntimeCounts
		err := n.pair.Rx.Do(func() (err error) {
			c, err = r.Read()
			return err
		})
		want := uint64(frames * (2 - i))
		if err != nil || c.Runs != want || c.Time <= 0 || c.Mean(RuntimeCounts{}) != c.Time/time.Duration(want) {
			t.Errorf("%+v, want %d runs: %v", c, want, err)
		}
	}
}

// What cannot be measured is refused with the cause and a way out, and nothing is left attached.
func TestLatencyErrors(t *testing.T) {
	n := newNetwork(t)
	for name, open := range map[string]func() error{
		"rx0 runs no XDP program": func() error { _, err := OpenLatency("rx0"); return err },
		"rx0 runs no XDP":         func() error { _, err := OpenRuntime("rx0"); return err },
		"is not 0 to 1":           func() error { _, err := OpenBuiltin("rx0", BuiltinOptions{Drop: 1.5}); return err },
	} {
		if err := n.pair.Rx.Do(open); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v does not say %q", err, name)
		}
	}
	v, err := testnet.AttachVerdict(n.pair.Rx, n.pair.RxName, testnet.Pass, testnet.VerdictOptions{Count: true})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	err = n.pair.Rx.Do(func() error { _, err := OpenBuiltin("rx0", BuiltinOptions{}); return err })
	if !errors.Is(err, xdp.ErrBusy) {
		t.Error(err)
	}
	if testnet.ProbeFentry() == nil {
		return
	}
	err = n.pair.Rx.Do(func() error { _, err := OpenLatency("rx0"); return err })
	for _, want := range []string{"operation not permitted", "--kernel-stats", "--builtin"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

// Somebody else's program is measured at each run, by its verdict.
func TestLatencyTraced(t *testing.T) {
	testnet.RequireFentry(t)
	n := newNetwork(t)
	v, err := testnet.AttachVerdict(n.pair.Rx, n.pair.RxName, testnet.Drop, testnet.VerdictOptions{Count: true})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	var readers [2]*Latency
	for i := range readers {
		readers[i] = openIn(t, n.pair.Rx, func() (*Latency, error) { return OpenLatency(n.pair.RxName) })
	}
	sent := generate(t, n.pair, 20_000)
	for _, l := range readers {
		defer l.Close()
		var c LatencyCounts
		err := n.pair.Rx.Do(func() (err error) {
			c, err = l.Read()
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		h, total := c.Verdict(xdp.Drop), c.Total()
		if h.Count != sent || total.Count != sent || h.Min <= 0 || h.Max < h.Quantile(0.999) {
			t.Errorf("%d runs, min %v, max %v", h.Count, h.Min, h.Max)
		}
	}
}

// The cost is that of the probes: more than nothing, and less than what an interrupt takes.
func TestProbeCost(t *testing.T) {
	testnet.RequireFentry(t)
	cost, err := MeasureProbeCost()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", cost)
	if cost.Added <= 0 || cost.Floor <= 0 || cost.Floor > cost.Added || cost.Added > time.Millisecond {
		t.Errorf("cost %+v", cost)
	}
}

// openIn opens something in a namespace, to be closed by the test.
func openIn[T any](t *testing.T, ns *testnet.Namespace, open func() (T, error)) (v T) {
	t.Helper()
	err := ns.Do(func() (err error) {
		v, err = open()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return v
}
