package meter

import (
	"cmp"
	"maps"
	"slices"
)

// An EventRate has the events of one case, on one CPU or on all of them.
type EventRate struct {
	Case       Case `json:"-"`
	CPU        int  `json:"-"` // AllCPUs: the sum over the CPUs
	EventCount      // cumulative

	// How fast the fields of EventCount rose in the interval.
	EventsPerSecond     float64 `json:"events_per_s"`
	PacketsPerSecond    float64 `json:"packets_per_s"`
	DropsPerSecond      float64 `json:"drops_per_s"`
	SchedPerSecond      float64 `json:"-"`
	PassedPerSecond     float64 `json:"-"`
	DroppedPerSecond    float64 `json:"-"`
	RedirectedPerSecond float64 `json:"-"`

	// PacketsPerEvent is the mean number of packets per event of the interval, lost ones included.
	// It is 0 where the interval had no event.
	PacketsPerEvent float64 `json:"-"`
}

// AllCPUs is the CPU of an EventRate that is the sum over all CPUs.
const AllCPUs = -1

// EventRates returns the rates of all cases since the counters were opened, ordered by event and
// then by the fields of Case. With perCPU, the rows of the CPUs that had events come before the sum
// of each case.
func EventRates(i Interval[EventCounts], perCPU bool) (rates []EventRate) {
	for _, c := range slices.SortedFunc(maps.Keys(i.Now.Cases), compareCases) {
		before, now := i.Before.Cases[c], i.Now.Cases[c]
		for cpu, count := range now {
			if !perCPU || count.Events == 0 {
				continue
			}
			var was EventCount
			if cpu < len(before) {
				was = before[cpu]
			}
			rates = append(rates, newEventRate(i, c, cpu, was, count))
		}
		rates = append(rates, newEventRate(i, c, AllCPUs, SumEvents(before), SumEvents(now)))
	}
	return rates
}

func newEventRate(i Interval[EventCounts], c Case, cpu int, before, now EventCount) EventRate {
	perSecond := func(before, now uint64) float64 { return PerSecond(before, now, i.Took) }
	r := EventRate{
		Case:                c,
		CPU:                 cpu,
		EventCount:          now,
		EventsPerSecond:     perSecond(before.Events, now.Events),
		PacketsPerSecond:    perSecond(before.Packets, now.Packets),
		DropsPerSecond:      perSecond(before.Drops, now.Drops),
		SchedPerSecond:      perSecond(before.Sched, now.Sched),
		PassedPerSecond:     perSecond(before.Passed, now.Passed),
		DroppedPerSecond:    perSecond(before.Dropped, now.Dropped),
		RedirectedPerSecond: perSecond(before.Redirected, now.Redirected),
	}
	if lately := now.Sub(before); lately.Events > 0 {
		r.PacketsPerEvent = float64(lately.Packets+lately.Drops) / float64(lately.Events)
	}
	return r
}

// SumEvents returns the sum over the CPUs.
func SumEvents(perCPU []EventCount) (sum EventCount) {
	for _, c := range perCPU {
		sum.Add(c)
	}
	return sum
}

func compareCases(a, b Case) int {
	return cmp.Or(
		cmp.Compare(a.Event, b.Event),
		cmp.Compare(a.MapID, b.MapID),
		cmp.Compare(a.ToCPU, b.ToCPU),
		cmp.Compare(a.From, b.From),
		cmp.Compare(a.To, b.To),
		cmp.Compare(a.Errno, b.Errno),
		cmp.Compare(a.Verdict, b.Verdict),
		cmp.Compare(a.Memory, b.Memory),
		cmp.Compare(a.Message, b.Message),
	)
}
