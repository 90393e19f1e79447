package capture

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The line of a file's comment that begins with SamplingComment says how packets were sampled, in
// parts joined by SamplingSeparator. ParseSampling recognizes each part by its first words.
const (
	SamplingComment   = "sampling: "
	SamplingSeparator = "; of these "

	flowsWords   = "all packets of one flow in "
	firstWords   = "the first "
	rateWords    = "at most "
	verdictWords = " with the verdict "
)

// sampling says which packets are kept, in the order of the decisions.
func (o *Options) sampling() string {
	var kept, byVerdict []string
	if o.SampleFlows > 1 {
		kept = append(kept, fmt.Sprintf("%s%d", flowsWords, o.SampleFlows))
	}
	if o.First > 0 {
		kept = append(kept, fmt.Sprintf("%s%d packets of each flow", firstWords, o.First))
	}
	if o.Sample > 1 {
		kept = append(kept, fmt.Sprintf("one packet of every %d, at random", o.Sample))
	}
	for _, v := range slices.Sorted(maps.Keys(o.SampleVerdicts)) {
		byVerdict = append(byVerdict, fmt.Sprintf("one of every %d%s%v", o.SampleVerdicts[v], verdictWords, v))
	}
	if byVerdict != nil {
		kept = append(kept, strings.Join(byVerdict, ", ")+", at random, and all packets with another verdict")
	}
	switch {
	case o.Adaptive && o.MaxRate > 0:
		kept = append(kept, fmt.Sprintf("a random share of packets, adapted to keep about %d per second or as many as there is room for", o.MaxRate))
	case o.Adaptive:
		kept = append(kept, "a random share of packets, adapted to keep as many as there is room for")
	case o.MaxRate > 0:
		kept = append(kept, fmt.Sprintf("%s%d packets per second", rateWords, o.MaxRate))
	}
	if kept == nil {
		return "every packet"
	}
	return strings.Join(kept, SamplingSeparator)
}

// ParseSampling reads what the comment of a file says about sampling. passedOver are the parts that
// skip packets without being counted in a weight, in words. byVerdict tells whether each verdict
// had its own rate.
func ParseSampling(comment string) (passedOver []string, byVerdict bool) {
	for line := range strings.Lines(comment) {
		said, ok := strings.CutPrefix(strings.TrimSpace(line), SamplingComment)
		if !ok {
			continue
		}
		byVerdict = byVerdict || strings.Contains(said, verdictWords)
		for part := range strings.SplitSeq(said, SamplingSeparator) {
			words := []string{flowsWords, firstWords, rateWords}
			if slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(part, w) }) {
				passedOver = append(passedOver, part)
			}
		}
	}
	return passedOver, byVerdict
}
