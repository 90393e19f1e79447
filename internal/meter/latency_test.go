package meter

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// The buckets follow each other without a gap, and none is wider than 1/32 of its lower bound.
func TestBuckets(t *testing.T) {
	t.Parallel()
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
	if next != 1<<maxBits {
		t.Errorf("they end at %d, want %d", next, 1<<maxBits)
	}
	for _, d := range []time.Duration{next, math.MaxInt64} {
		if got := bucketOf(d); got != buckets-1 {
			t.Errorf("%d is in bucket %d, want the last, %d", d, got, buckets-1)
		}
	}
}

// replayer counts values with the code of the program in the kernel, without any traffic.
func newReplayer(t *testing.T) (l *Latency, replay func(d time.Duration, v uint32) (bucket int)) {
	t.Helper()
	testnet.RequireRoot(t)
	l, err := newLatency()
	must(t, err)
	t.Cleanup(func() { l.Close() })
	prog, err := l.load(latencyProgXdpcapReplay)
	must(t, err)
	t.Cleanup(func() { prog.Close() })
	var in [16]byte
	return l, func(d time.Duration, v uint32) int {
		binary.LittleEndian.PutUint64(in[:], uint64(d))
		binary.LittleEndian.PutUint64(in[8:], uint64(v))
		bucket, err := prog.Run(&ebpf.RunOptions{Context: in[:]})
		must(t, err)
		return int(bucket)
	}
}

// A histogram that is read while the program counts a run is consistent: its count is the sum of
// its buckets, and its bounds fit them.
func TestHistogramHalfWritten(t *testing.T) {
	t.Parallel()
	inBucket := func(slot latencyHistogram, times ...time.Duration) *latencyHistogram {
		for _, d := range times {
			slot.Buckets[bucketOf(d)]++
		}
		return &slot
	}
	const long = 20 * time.Second // in the last bucket, which has no end
	for _, test := range []struct {
		name     string
		slot     *latencyHistogram
		count    uint64
		min, max time.Duration
	}{
		{"count, and no bucket", inBucket(latencyHistogram{Count: 1, SumNs: 7, MinNs: 7, MaxNs: 7}), 0, 0, 0},
		{"a bucket, and no count", inBucket(latencyHistogram{}, 1024), 1, 1024, 1024},
		{"a bucket more", inBucket(latencyHistogram{Count: 1, SumNs: 9, MinNs: 9, MaxNs: 9}, 9, 2050), 2, 9, 2048},
		{"least and most of the bucket", inBucket(latencyHistogram{Count: 2, MinNs: 2050, MaxNs: 2052}, 2050, 2052), 2, 2050, 2052},
		{"the last bucket", inBucket(latencyHistogram{Count: 1, MinNs: uint64(long), MaxNs: uint64(long)}, long), 1, long, long},
	} {
		h := newHistogram(test.slot)
		var runs uint64
		for _, r := range h.Ranges(8) {
			runs += r.Runs
		}
		if h.Count != test.count || runs != test.count || h.Min != test.min || h.Max != test.max || h.Quantile(1) < h.Quantile(0) {
			t.Errorf("%s: %d runs, %d in ranges, %v to %v; want %d, %v to %v", test.name, h.Count, runs, h.Min, h.Max, test.count, test.min, test.max)
		}
	}
}

// bucket_of in C puts each value into the bucket that bucketOf in Go names.
func TestBucketsInKernel(t *testing.T) {
	t.Parallel()
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

// Percentiles of known distributions, counted in the kernel, are within 3 % of the true ones.
// Count, sum, minimum and maximum are exact.
func TestQuantiles(t *testing.T) {
	t.Parallel()
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
			c, err := l.Read()
			must(t, err)
			h := c.Total()
			var cpus Histogram
			for i := range c.CPUs {
				cpus.Add(&c.CPUs[i])
			}
			if cpus != h {
				t.Errorf("the CPUs' sum differs from the total: %d values of %d", cpus.Count, h.Count)
			}
			below, _ := slices.BinarySearch(values, 1024)
			for _, test := range []struct {
				what      string
				got, want uint64
			}{
				{"count", h.Count, 5000},
				{"sum", uint64(h.Sum), uint64(sum)},
				{"min", uint64(h.Min), uint64(values[0])},
				{"max", uint64(h.Max), uint64(values[4999])},
				{"CPUs", uint64(len(c.CPUs)), uint64(ebpf.MustPossibleCPU())},
				{"unknown", c.Verdict(xdp.UnknownVerdict).Count, 5000 / 7 * 2}, // 5 and 6 are no verdicts
				{"below 1024 ns", h.Below(1024), uint64(below)},
			} {
				if test.got != test.want {
					t.Errorf("%s: %d, want %d", test.what, test.got, test.want)
				}
			}
			for _, q := range []float64{0, 0.01, 0.5, 0.9, 0.99, 0.999, 1} {
				want := values[max(int(math.Ceil(q*5000))-1, 0)]
				got := h.Quantile(q)
				if math.Abs(float64(got-want)) > 0.03*float64(want) {
					t.Errorf("quantile %v is %d, want %d", q, got, want)
				}
			}
		})
	}
}

func TestEmptyHistogram(t *testing.T) {
	t.Parallel()
	var h Histogram
	if median, mean, below := h.Quantile(0.5), h.Mean(), h.Below(time.Second); median != 0 || mean != 0 || below != 0 {
		t.Errorf("median %v, mean %v, %d below a second", median, mean, below)
	}
}

// Runtime reads the counters of the attached program, from the time when Runtime was opened.
func TestRuntime(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	n.attach(verdict(int32(xdp.Drop)))
	var readers [2]*Runtime
	for i := range readers {
		readers[i] = openIn(t, n.pair.Rx, func() (*Runtime, error) { return OpenRuntime(n.pair.RxName) })
		// The frames of the first round are seen by the first reader alone.
		testnet.Send(t, n.pair, slices.Repeat([][]byte{testnet.UDPFrame(testnet.MinFrame, 0)}, frames)...)
	}
	for i, r := range readers {
		c, want := read(t, n.pair, r.Read), uint64(frames*(2-i))
		if c.Runs != want || c.Time <= 0 || c.Mean(RuntimeCounts{}) != c.Time/time.Duration(want) {
			t.Errorf("%+v with a mean of %v, want %d runs", c, c.Mean(RuntimeCounts{}), want)
		}
	}
}

// Programs that cannot be measured are refused with the cause and a remedy, and nothing is left
// attached.
func TestLatencyErrors(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	for name, open := range map[string]func() error{
		"rx0 runs no XDP program": func() error { _, err := OpenLatency("rx0", ""); return err },
		"rx0 runs no XDP":         func() error { _, err := OpenRuntime("rx0"); return err },
	} {
		if err := n.pair.Rx.Do(open); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v does not say %q", err, name)
		}
	}
	testnet.MustReceiver(t, n.pair, xdp.Pass, testnet.ReceiverOptions{Count: true})
	if testnet.ProbeFentry() == nil {
		return
	}
	err := n.pair.Rx.Do(func() error { _, err := OpenLatency("rx0", ""); return err })
	if !errors.Is(err, ErrNotMeasurable) || !strings.Contains(err.Error(), "operation not permitted") {
		t.Errorf("error %v, want ErrNotMeasurable with the kernel's reason", err)
	}
}

// Each run of somebody else's program is measured, by its verdict.
func TestLatencyTraced(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	n := newNetwork(t)
	testnet.MustReceiver(t, n.pair, xdp.Drop, testnet.ReceiverOptions{Count: true})
	var readers [2]*Latency
	for i := range readers {
		readers[i] = openIn(t, n.pair.Rx, func() (*Latency, error) { return OpenLatency(n.pair.RxName, "") })
	}
	_, sent := testnet.Generate(t, n.pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(testnet.MinFrame, 0), Count: 20_000, CPU: -1})
	for _, l := range readers {
		c := read(t, n.pair, l.Read)
		h, total := c.Verdict(xdp.Drop), c.Total()
		if h.Count != sent || total.Count != sent {
			t.Errorf("%d runs with the verdict drop, %d in all, want %d", h.Count, total.Count, sent)
		}
		if h.Min <= 0 || h.Max < h.Quantile(0.999) {
			t.Errorf("the shortest run took %v, the longest %v, one in a thousand %v", h.Min, h.Max, h.Quantile(0.999))
		}
	}
}

// The cost of the probes is more than nothing, and less than an interrupt takes. This test is not
// parallel, because it measures times.
func TestProbeCost(t *testing.T) {
	testnet.RequireFentry(t)
	cost, err := MeasureProbeCost()
	must(t, err)
	t.Logf("%+v", cost)
	if cost.Added <= 0 || cost.Floor <= 0 || cost.Floor > cost.Added || cost.Added > time.Millisecond {
		t.Errorf("cost %+v", cost)
	}
}
