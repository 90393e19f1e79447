package drops

import (
	"cmp"
	"slices"
	"time"

	"github.com/xdpcap/xdpcap/internal/meter"
)

// A LossRate has the packets that were lost for one cause.
type LossRate struct {
	Loss
	Pod string `json:"pod,omitempty"` // of the network namespace, if the caller knows it
	meter.Rate
}

// LossRates returns the rates of all losses, ordered by their stages and then by their packets, the
// largest first. The list is never nil, which JSON would show as null.
func LossRates(before, now map[Loss]Tally, took time.Duration) []LossRate {
	rates := []LossRate{}
	for l, tally := range now {
		rates = append(rates, LossRate{Loss: l, Rate: meter.NewRate(before[l], tally, took)})
	}
	slices.SortFunc(rates, func(a, b LossRate) int {
		return cmp.Or(cmp.Compare(slices.Index(Stages, a.Stage), slices.Index(Stages, b.Stage)), cmp.Compare(b.Packets, a.Packets), compareCauses(a.Loss, b.Loss))
	})
	return rates
}

func compareCauses(a, b Loss) int {
	return cmp.Or(cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Where, b.Where), cmp.Compare(a.Device, b.Device), cmp.Compare(a.Netns, b.Netns))
}

// TotalRate returns the rate of all losses together.
func TotalRate(i meter.Interval[Counts]) meter.Rate {
	var before, now Tally
	for l, tally := range i.Now.Losses {
		before.Add(i.Before.Losses[l])
		now.Add(tally)
	}
	return meter.NewRate(before, now, i.Took)
}

// addAll adds the packets of all losses.
func addAll(to, losses map[Loss]Tally) {
	for l, tally := range losses {
		addTo(to, l, tally)
	}
}

func stageTotals(losses map[Loss]Tally) map[Stage]Tally {
	totals := make(map[Stage]Tally)
	for l, tally := range losses {
		tally.Add(totals[l.Stage])
		totals[l.Stage] = tally
	}
	return totals
}
