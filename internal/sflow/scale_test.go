package sflow

import (
	"math/rand/v2"
	"testing"

	"github.com/xdpcap/xdpcap/capture"
)

func TestShare(t *testing.T) {
	t.Parallel()
	lost := func(n uint64) capture.Account { return capture.Account{Seen: 1e6, Lost: n} }
	tests := []struct {
		name             string
		options          capture.Options
		account          capture.Account
		samples, waiting uint64
		want             uint64
	}{
		{"every packet", capture.Options{}, lost(0), 5, 100, 1},
		{"one in 1000", capture.Options{Sample: 1000}, lost(0), 5, 100, 1000},
		{"of one flow in 10", capture.Options{Sample: 1000, SampleFlows: 10}, lost(0), 5, 5, 10_000},
		{"lost ones are shared by all that wait", capture.Options{Sample: 1000}, lost(50), 5, 100, 1500},
		{"no other waits", capture.Options{Sample: 1000}, lost(50), 5, 5, 11_000},
		{"a rest is rounded up at the end", capture.Options{Sample: 1}, lost(1), 5, 5, 2},
		{"and waits else", capture.Options{Sample: 1}, lost(1), 5, 100, 1},
		{"what is filtered out is not of the pool", capture.Options{MaxRate: 1}, capture.Account{Seen: 100, FilteredOut: 40, NotSampled: 50}, 10, 10, 6},
		{"nor was it sent", capture.Options{MaxRate: 1, Sample: 10}, capture.Account{Seen: 1000, NotSampled: 980, Lost: 10}, 10, 10, 100},
		{"a rate has 32 bits", capture.Options{Sample: 1 << 31, SampleFlows: 4}, lost(0), 1, 1, 1<<32 - 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newScale(&tt.options)
			s.update(tt.account)
			if got := s.share(tt.samples, tt.waiting); got != tt.want {
				t.Errorf("the rate is %d, want %d", got, tt.want)
			}
		})
	}
}

// If packets have weights, each has a rate of its own, and the others share the weights of lost
// ones.
func TestRateOf(t *testing.T) {
	t.Parallel()
	for _, o := range []capture.Options{{Adaptive: true, SampleFlows: 2, MaxRate: 5}, {SampleVerdicts: map[capture.Verdict]uint32{capture.Drop: 1}, SampleFlows: 2}} {
		s := newScale(&o)
		s.update(capture.Account{Seen: 1e6, Lost: 3, Missed: 300})
		if got := s.rateOf(50, s.share(10, 100)); got != 2*50+6 {
			t.Errorf("rate %d, want twice the weight and a part of the 600 that are missed", got)
		}
		if got := s.rateOf(1, s.share(90, 90)); got != 2+6 {
			t.Errorf("rate %d", got)
		}
	}
	s := newScale(&capture.Options{Sample: 10})
	if got := s.rateOf(10, s.share(1, 1)); got != 10 {
		t.Errorf("with one rate for all: rate %d, want 10", got)
	}
}

// However packets are lost and whenever the account is read, the sum of the rates ends at the right
// value, and is never much more.
func TestSharesAddUp(t *testing.T) {
	t.Parallel()
	for range 200 {
		o := capture.Options{Sample: 1 + rand.Uint32N(1000)}
		s := newScale(&o)
		var a capture.Account
		var sum, sent uint64
		n := uint64(0)
		for range 1000 {
			n = 1 + rand.Uint64N(7)
			if rand.IntN(20) == 0 {
				a.Lost += rand.Uint64N(10_000)
			}
			if rand.IntN(3) == 0 {
				s.update(a)
			}
			sum, sent = sum+n*s.share(n, n+rand.Uint64N(2)*rand.Uint64N(400)), sent+n
			if limit := uint64(o.Sample)*(sent+a.Lost) + 6; sum > limit {
				t.Fatalf("the rates' sum is %d, where %d were sent and %d lost of one in %d", sum, sent, a.Lost, o.Sample)
			}
		}
		s.update(a)
		sum, sent = sum+n*s.share(n, n), sent+n
		if want := uint64(o.Sample) * (sent + a.Lost); sum < want || sum > want+6 { // the last that were rounded up were at most 7
			t.Errorf("the rates' sum is %d, want %d", sum, want)
		}
	}
}
