package counters

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/drops"
)

// writeRemainder prints, with --check, what differs from the kernel's counters.
func (r *DropsReport) writeRemainder(w io.Writer) {
	if r.Remainder == nil {
		return
	}
	line := func(format string, a ...any) {
		frame.PageOf(w).Line(format, a...)
	}
	for _, c := range r.Unexplained {
		line("unexplained: %s %d: no tracepoint reports it", c.Counter, c.Packets)
	}
	for _, l := range r.Unconfirmed {
		line("unconfirmed: %s %d: none of the kernel's counters for it rose", causeOf(l.Loss), l.Packets)
	}
	if len(r.Unexplained)+len(r.Unconfirmed) == 0 {
		line("the kernel's counters agree")
	}
	counts := make(map[string]uint64)
	for _, l := range r.Unchecked {
		counts[l.Reason] += l.Packets
	}
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprint(reason, " ", counts[reason]))
	}
	if len(parts) > 0 {
		writeWrapped(w, "the kernel has no counter for:", separated(parts))
	}
}

// causeOf names a loss in a line.
func causeOf(l drops.Loss) string {
	return strings.TrimRight(l.Reason+" "+l.Where, " ")
}
