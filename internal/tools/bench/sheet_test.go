package main

import (
	"testing"
)

const halvings = 7

func TestHighestRate(t *testing.T) {
	t.Parallel()
	const top = 4e6
	for _, c := range []struct {
		name          string
		true, reached float64 // without loss; by the traffic
	}{
		{"near the top", 3.9e6, top},
		{"in the middle", 2e6, top},
		{"low", 0.1e6, top},
		{"below the first step", 0.01e6, top},
		{"always loss", 0, top},
		{"traffic that is slower than asked for", 1e6, 1e6},
	} {
		t.Run(c.name, func(t *testing.T) {
			tries := 0
			got := highestRate(top, halvings, func(rate float64) (float64, bool) {
				tries++
				rate = min(rate, c.reached)
				return rate, rate <= c.true
			})
			if got > c.true || c.true-got > top/(1<<halvings) {
				t.Errorf("found %.0f, want %.0f or up to 1/%d of %.0f less", got, c.true, 1<<halvings, top)
			}
			if tries != halvings {
				t.Errorf("%d tries, want %d", tries, halvings)
			}
		})
	}
}
