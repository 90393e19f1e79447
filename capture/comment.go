package capture

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/xdpcap/xdpcap/capture/internal/probe"
	"github.com/xdpcap/xdpcap/internal/message"
)

// AnonymizedComment begins the line of a file's comment about the replacement of addresses.
const AnonymizedComment = "anonymized: "

// comment returns the comment of a file's header: the programs, the sampling and the command line.
func (d *Description) comment(commandLine string) string {
	var b strings.Builder
	if d.Anonymized != "" {
		fmt.Fprintf(&b, "%s%s\n", AnonymizedComment, d.Anonymized)
		commandLine = ""
	}
	if !d.IsLive() {
		return strings.TrimSuffix(b.String(), "\n")
	}
	for _, src := range d.Sources {
		fmt.Fprintf(&b, "%s: %s\n", src.Label(), src.Sentence())
	}
	if len(d.Options.Patterns) > 0 && !d.Options.StackDrops && d.Anonymized == "" { // names of interfaces may have a MAC address
		fmt.Fprintf(&b, "interfaces as they come and go: %s\n", probe.DescribePatterns(d.Options.Patterns, d.Options.Except))
	}
	d.commentCards(&b)
	if d.Stamps != "" {
		fmt.Fprintf(&b, "time stamps: %v; %s\n", d.Options.Stamp, d.Stamps)
	}
	if d.Recorded != "" {
		fmt.Fprintf(&b, "recorded because of: %s\n", d.Recorded)
	}
	b.WriteString(SamplingComment + d.Options.sampling() + "\n")
	for _, chosen := range []struct {
		kind     VerdictKind
		verdicts []Verdict
	}{{XDPVerdict, d.Options.Verdicts}, {TCVerdict, d.Options.TCVerdicts}} {
		var names []string
		for _, v := range chosen.verdicts {
			names = append(names, chosen.kind.NameOf(v))
		}
		if names != nil && d.hasVerdicts(chosen.kind) {
			fmt.Fprintf(&b, "only packets with the verdict %v at the exit\n", names)
		}
	}
	if d.Options.SlowerThan > 0 {
		fmt.Fprintf(&b, "only packets for which the program ran at least %d ns at the exit\n", d.Options.SlowerThan.Nanoseconds())
	}
	if d.Options.ReasonMap != "" {
		fmt.Fprintf(&b, "reasons of dropped packets: as the XDP program writes them into the map %s\n", d.Options.ReasonMap)
	}
	if len(d.Options.Reasons) > 0 {
		by := "thrown away"
		if !d.Options.StackDrops {
			by = "dropped by the program"
		}
		fmt.Fprintf(&b, "only packets that were %s for %s\n", by, strings.Join(d.Options.Reasons, ", "))
	}
	if d.Options.Sink {
		b.WriteString("every packet was dropped after sampling\n")
	}
	fmt.Fprintf(&b, "snapshot length: %d\n", d.Options.SnapLen)
	if d.Options.HeadersOnly {
		fmt.Fprintf(&b, "packets were cut in the kernel, %d bytes after the end of their headers\n", d.Options.Payload)
	}
	fmt.Fprintf(&b, "transport: %v, %s for each CPU", d.Options.Transport, message.Kibibytes(d.Options.Buffer))
	if commandLine != "" {
		fmt.Fprintf(&b, "\ncommand line: %s", commandLine)
	}
	return b.String()
}

// commentCards writes the metadata that was requested from the cards, and its meaning for the time
// stamps.
func (d *Description) commentCards(b *strings.Builder) {
	for _, src := range d.Sources {
		if src.CardMetadata != nil {
			fmt.Fprintf(b, "%s: the card was asked for %s\n", src.Name, strings.Join(src.CardMetadata, ", "))
		}
	}
	if !d.Options.Stamp.IsCards() {
		return
	}
	fmt.Fprintf(b, "time stamps: %v; packets without a stamp from the card have the host's; packets are in the order of the host's stamps, so stamps may step back\n", d.Options.Stamp)
	for i, clock := range d.Clocks {
		if clock != nil {
			fmt.Fprintf(b, "%s: at the start %v\n", d.Sources[i].Name, clock)
		}
	}
}

// The line of a file's comment that begins with SamplingComment describes the sampling of packets,
// in parts joined by SamplingSeparator. ParseSampling recognizes each part by its first words.
const (
	SamplingComment   = "sampling: "
	SamplingSeparator = "; of these "

	flowsWords   = "all packets of one flow in "
	firstWords   = "the first "
	rateWords    = "at most "
	verdictWords = " with the verdict "
)

// sampling describes which packets are kept, in the order of the decisions.
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

// ParseSampling parses the line about sampling in the comment of a file. unweighted are the parts
// that skip packets which no weight counts, such as "the first 5 packets of each flow". byVerdict
// reports whether each verdict had its own rate.
func ParseSampling(comment string) (unweighted []string, byVerdict bool) {
	for line := range strings.Lines(comment) {
		sampling, ok := strings.CutPrefix(strings.TrimSpace(line), SamplingComment)
		if !ok {
			continue
		}
		byVerdict = byVerdict || strings.Contains(sampling, verdictWords)
		for part := range strings.SplitSeq(sampling, SamplingSeparator) {
			words := []string{flowsWords, firstWords, rateWords}
			if slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(part, w) }) {
				unweighted = append(unweighted, part)
			}
		}
	}
	return unweighted, byVerdict
}

// passedByComment is the comment of an interface's statistics with Account.PassedBy.
const passedByComment = "at least %d more packets, which the interface has counted, did not pass the hook"

// ParsePassedBy returns how many packets did not pass the hook, by the comments of an interface's
// statistics; 0 = no comment has the number.
func ParsePassedBy(comments []string) uint64 {
	for _, comment := range comments {
		var n uint64
		if _, err := fmt.Sscanf(comment, passedByComment, &n); err == nil {
			return n
		}
	}
	return 0
}

// hasVerdicts reports whether a source has verdicts of a kind. Sources that have not come yet are
// taken to be at XDP.
func (d *Description) hasVerdicts(kind VerdictKind) bool {
	return len(d.Sources) == 0 && kind == XDPVerdict ||
		slices.ContainsFunc(d.Sources, func(s Source) bool { return (s.TargetAt != 0) == (kind == TCVerdict) })
}
