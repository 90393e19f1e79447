package main

import (
	"errors"
	"math"
	"testing"
)

const halvings = 7

func TestHighestRate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		top, true float64
	}{
		{"near the top", 4e6, 3.9e6},
		{"in the middle", 4e6, 2e6},
		{"low", 4e6, 0.1e6},
		{"below the first step", 4e6, 0.01e6},
		{"always loss", 4e6, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			tries := 0
			got, err := highestRate(c.top, halvings, func(rate float64) (float64, bool, error) {
				tries++
				return rate, rate <= c.true, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if got > c.true || c.true-got > c.top/(1<<halvings) {
				t.Errorf("found %.0f, want %.0f or up to 1/%d of %.0f less", got, c.true, 1<<halvings, c.top)
			}
			if tries != halvings {
				t.Errorf("%d tries, want %d", tries, halvings)
			}
		})
	}
}

// If the traffic is slower than asked for, the rate that was reached counts.
func TestHighestRateIsReal(t *testing.T) {
	t.Parallel()
	const most = 1e6
	got, err := highestRate(4e6, halvings, func(rate float64) (float64, bool, error) {
		return min(rate, most), true, nil
	})
	if err != nil || got != most {
		t.Errorf("found %.0f, %v, want %.0f", got, err, most)
	}
}

func TestHighestRateStopsAtError(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	tries := 0
	_, err := highestRate(math.MaxFloat64, halvings, func(float64) (float64, bool, error) {
		tries++
		return 0, false, broken
	})
	if !errors.Is(err, broken) || tries != 1 {
		t.Errorf("error %v after %d tries, want %v after 1", err, tries, broken)
	}
}
