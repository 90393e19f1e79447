package meter

import (
	"cmp"
	"maps"
	"slices"
)

// A ClassRate has the packets of one class.
type ClassRate struct {
	Family   string `json:"family"`   // see Class.Family
	Protocol string `json:"protocol"` // see Class.Protocol
	Number   int    `json:"number"`   // see Class.Number
	Rate
}

// ClassRates returns the rates of all classes that had packets since the counters were opened. The
// class with the most bytes is first. The list is never nil, which JSON would show as null.
func ClassRates(i Interval[ProtocolCounts]) []ClassRate {
	return classRates(i, ProtocolCounts.Class)
}

// CPUClassRates is ClassRates for the packets that one CPU counted.
func CPUClassRates(i Interval[ProtocolCounts], cpu int) []ClassRate {
	return classRates(i, func(c ProtocolCounts, class Class) Tally { return c.CPU(class, cpu) })
}

func classRates(i Interval[ProtocolCounts], tally func(ProtocolCounts, Class) Tally) []ClassRate {
	rates := []ClassRate{}
	for _, class := range slices.Sorted(maps.Keys(i.Now.Classes)) {
		r := NewRate(tally(i.Before, class), tally(i.Now, class), i.Took)
		if r.Packets > 0 {
			rates = append(rates, ClassRate{class.Family(), class.Protocol(), class.Number(), r})
		}
	}
	slices.SortStableFunc(rates, func(a, b ClassRate) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return rates
}
