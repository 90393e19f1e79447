package counters

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/drops"
	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/metrics"
)

// Retransmits counts the segments that TCP has sent again.
type Retransmits struct {
	Packets          uint64           `json:"packets"`
	PacketsPerSecond float64          `json:"packets_per_s"`
	LostHere         []drops.LossRate `json:"lost_here"` // before they were sent again
	NotHere          uint64           `json:"not_here"`
	NotKnown         uint64           `json:"not_known"`
}

// newRetransmits returns nil if they were not counted.
func newRetransmits(o *DropsOptions, i dropsInterval) *Retransmits {
	now, before := i.Now.Retransmits, i.Before.Retransmits
	if now == nil {
		return nil
	}
	if before == nil {
		before = new(drops.Retransmits)
	}
	return &Retransmits{
		Packets:          now.Segments,
		PacketsPerSecond: meter.PerSecond(before.Segments, now.Segments, i.Took),
		LostHere:         o.rates(before.Lost, now.Lost, i.Took),
		NotHere:          now.Elsewhere,
		NotKnown:         now.Unknown,
	}
}

// write prints a line, or several if there are many causes: "retransmitted 9: 5 lost here, drop at
// eth0; 4 not lost at eth0". iface is the interface of -i, "" for the whole machine.
func (r *Retransmits) write(w io.Writer, iface string, numbered *namespaces) {
	if r == nil {
		return
	}
	total := uint64(0)
	packets := make(map[string]uint64)
	for _, l := range r.LostHere {
		packets[placeOf(l.Loss, iface, numbered)] += l.Packets
		total += l.Packets
	}
	causes := slices.SortedFunc(maps.Keys(packets), func(a, b string) int { return cmp.Or(cmp.Compare(packets[b], packets[a]), cmp.Compare(a, b)) })
	parts := []string{fmt.Sprintf("%d lost here", total)}
	switch len(causes) {
	case 0:
	case 1:
		parts = separated(append(parts, causes...))
	default:
		for i, cause := range causes {
			causes[i] = fmt.Sprintf("%s %d", cause, packets[cause])
		}
		parts = append([]string{parts[0] + ":"}, separated(causes)...)
	}
	where := "on this host"
	if iface != "" {
		where = "at " + iface
	}
	parts[len(parts)-1] += ";"
	parts = append(parts, fmt.Sprintf("%d not lost %s", r.NotHere, where))
	if r.NotKnown > 0 {
		parts[len(parts)-1] += ";"
		parts = append(parts, fmt.Sprintf("%d not known", r.NotKnown))
	}
	writeWrapped(w, fmt.Sprintf("retransmitted %d:", r.Packets), parts)
}

// separated adds a comma to all but the last.
func separated(parts []string) []string {
	for i := range parts[:len(parts)-1] {
		parts[i] += ","
	}
	return parts
}

// placeOf names a loss by its reason and device.
func placeOf(l drops.Loss, iface string, numbered *namespaces) string {
	name, at := l.Reason, cmp.Or(l.Device, iface)
	switch {
	case l.Stage == drops.XDP:
		name = "XDP " + name
	case name == "NOT_SPECIFIED":
		name = l.Where
	}
	if at == "" || at == "?" {
		return name
	}
	if l.Netns != 0 {
		at += fmt.Sprint("@", numbered.number(l.Netns))
	}
	return name + " at " + at
}

// writeWrapped prints a title and parts of a sentence in lines of at most frame.MaxColumns.
func writeWrapped(w io.Writer, title string, parts []string) {
	for _, line := range wrap(title, parts, frame.MaxColumns, 2) {
		frame.PageOf(w).Line("%s", line)
	}
}

// wrap breaks a title and the parts after it into lines of at most `columns` columns. The lines
// after the first are indented. A part is never broken.
func wrap(title string, parts []string, columns, indent int) (lines []string) {
	line, begin := title, strings.Repeat(" ", indent-1)
	for _, part := range parts {
		if len(line)+1+len(part) > columns && line != begin {
			lines = append(lines, line)
			line = begin
		}
		line += " " + part
	}
	return append(lines, line)
}

// countRetransmits adds the metric of segments that TCP has sent again.
func countRetransmits(set *metrics.Set[drops.Counts]) {
	set.Count("xdpcap_drops_retransmitted_packets_total", "Segments that TCP sent again, by whether they had been lost here, elsewhere, or that is unknown, and why.",
		[]string{"lost", "stage", "reason", "where", "device", "netns"},
		func(c drops.Counts, send metrics.SendValue) {
			if c.Retransmits == nil {
				return
			}
			for l, tally := range c.Retransmits.Lost {
				send(float64(tally.Packets), append([]string{"here"}, labelsOf(l)...)...)
			}
			send(float64(c.Retransmits.Elsewhere), "elsewhere", "", "", "", "", "")
			send(float64(c.Retransmits.Unknown), "unknown", "", "", "", "", "")
		})
}
