package estimate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// runs returns how many captures of the same packets are simulated.
func runs() int {
	if testing.Short() {
		return 500
	}
	return 2000
}

// A packet of simulated traffic is of the flow that is looked at, or of another one.
type packet struct {
	bytes float64
	ours  bool
	rate  int // one of so many is to be kept when it comes
	until int // place of the next packet with a lower rate
}

// A design is a way of sampling.
type design struct {
	name  string
	most  int                       // the largest of its rates
	one   float64                   // packets for each that is kept
	rate  func(at, packets int) int // at one of so many packets
	rates []int                     // of the verdicts, in place of rate: each verdict has groups of its own
}

func fixed(n int) design {
	return design{name: fmt.Sprint("1 of ", n), most: n, one: float64(n), rate: func(int, int) int { return n }}
}

// designs are all that xdpcap has: one rate, a rate that changes while packets come, also before a
// group is complete, and a rate for each verdict.
var designs = []design{
	fixed(2), fixed(10), fixed(1000),
	{name: "adaptive", most: 400, one: 6, rate: func(at, packets int) int {
		return [...]int{1, 64, 400, 90, 33, 400, 7, 2, 20, 300}[at*30/packets%10]
	}},
	{name: "by verdict", most: 100, one: 100, rates: []int{100, 1}},
}

// traffic makes packets, of which a share is of the flow: at random places, or in bursts of 20.
// They come as one sequence, or as one for each verdict.
func (d *design) traffic(random *rand.Rand, packets int, share float64, bursts bool) [][]packet {
	sequences := make([][]packet, max(len(d.rates), 1))
	ours := false
	for i := range packets {
		if !bursts || i%20 == 0 {
			ours = random.Float64() < share
		}
		p := packet{bytes: 60, ours: ours}
		if random.Float64() < 0.3 {
			p.bytes = 1514
		}
		verdict := 0
		if d.rates != nil {
			if random.Float64() < 0.02 {
				verdict = 1
			}
			p.rate = d.rates[verdict]
		} else {
			p.rate = d.rate(i, packets)
		}
		sequences[verdict] = append(sequences[verdict], p)
	}
	for _, all := range sequences {
		for i := len(all) - 1; i >= 0; i-- {
			at := i + 1
			for at < len(all) && all[at].rate >= all[i].rate {
				at = max(all[at].until, at+1)
			}
			all[i].until = at
		}
	}
	return sequences
}

// capture draws from a sequence as bpf/sampler.c does, exactly one packet of each group, but a
// group that is larger than the rate requires ends early. It adds the flow's packets and bytes.
func capture(random *rand.Rand, all []packet, kept *[2]Sum) {
	for at := 0; at < len(all); {
		size := all[at].rate
		end := min(at+size, all[at].until)
		if i := at + int(random.Uint32N(uint32(size))); i < end && all[i].ours {
			kept[0].Add(uint32(size), 1)
			kept[1].Add(uint32(size), all[i].bytes)
		}
		at = end
	}
}

// Of many captures of the same packets, the true sum is within the bounds in 93 of 100 at least,
// for flows of few packets and of many, their packets and their bytes. Where groups rarely have two
// packets of a flow, the bounds are hardly wider than they have to be.
func TestBounds(t *testing.T) {
	t.Parallel()
	for number, d := range designs {
		for _, expected := range []float64{5, 20, 100} { // packets of the flow that are drawn
			t.Run(fmt.Sprintf("%s, %g expected", d.name, expected), func(t *testing.T) {
				t.Parallel()
				for _, share := range []float64{0.05, 0.5} {
					for _, bursts := range []bool{false, true} {
						name := fmt.Sprintf("share %g, bursts %v", share, bursts)
						random := rand.New(rand.NewPCG(uint64(number), uint64(expected)))
						all := d.traffic(random, int(expected*d.one/share), share, bursts)
						simulate(t, name, random, &d, all, d.rate != nil && d.one == float64(d.most) && !bursts && share < 0.1 && expected == 100)
					}
				}
			})
		}
	}
}

func simulate(t *testing.T, name string, random *rand.Rand, d *design, sequences [][]packet, tight bool) {
	t.Helper()
	runs := float64(runs())
	var truth [2]float64
	for _, p := range slices.Concat(sequences...) {
		if p.ours {
			truth[0]++
			truth[1] += p.bytes
		}
	}
	var inside [2]int
	var sum, squares, width [2]float64
	for range int(runs) {
		var kept [2]Sum
		for _, all := range sequences {
			capture(random, all, &kept)
		}
		for i := range kept {
			low, high := kept[i].Bounds(uint32(d.most), [...]float64{1, 1514}[i])
			if low <= truth[i] && truth[i] <= high {
				inside[i]++
			}
			e := kept[i].Estimate()
			sum[i] += e
			squares[i] += e * e
			width[i] += high - low
		}
	}
	for i, what := range []string{"packets", "bytes"} {
		mean := sum[i] / runs
		spread := math.Sqrt(squares[i]/runs - mean*mean)
		if part := float64(inside[i]) / runs; part < 0.93 {
			t.Errorf("%s: %s: %.1f %% within the bounds", name, what, 100*part)
		}
		if math.Abs(mean-truth[i]) > 5*spread/math.Sqrt(runs) {
			t.Errorf("%s: %s: on average %.0f are estimated, and there were %.0f", name, what, mean, truth[i])
		}
		if ideal := 2 * normal95 * spread; tight && width[i]/runs > 1.3*ideal {
			t.Errorf("%s: %s: the bounds are %.0f apart, %.0f would do", name, what, width[i]/runs, ideal)
		}
	}
}

// If every packet was kept, the sum is exact.
func TestWhole(t *testing.T) {
	t.Parallel()
	var s Sum
	s.Add(1, 60)
	s.Add(0, 40)
	if low, high := s.Bounds(1, 1514); s.Estimate() != 100 || low != 100 || high != 100 {
		t.Errorf("%v, between %v and %v, want 100", s.Estimate(), low, high)
	}
	if _, high := s.Bounds(1000, 1514); high <= 100 {
		t.Errorf("no packet was drawn as one of 1000, and there were %v at most", high)
	}
	s.Add(10, 100)
	if low, _ := s.Bounds(10, 1514); low < 200 || s.Estimate() != 1100 {
		t.Errorf("%v, at least %v: 200 were drawn", s.Estimate(), low)
	}
}
