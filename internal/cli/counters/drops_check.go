package counters

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/drops"
	"github.com/xdpcap/xdpcap/internal/escape"
)

// writeRemainder prints, with --check, what differs from the kernel's counters.
func (r *DropsReport) writeRemainder(w io.Writer) {
	if r.Remainder == nil {
		return
	}
	line := func(format string, a ...any) {
		fmt.Fprintln(w, frame.Shorten(escape.Text(fmt.Sprintf(format, a...)), frame.MaxColumns))
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
	text := "without a counter:"
	for i, reason := range slices.Sorted(maps.Keys(counts)) {
		more := fmt.Sprintf(" %s %d", reason, counts[reason])
		if i > 0 {
			text += ","
		}
		if len(text)+len(more) >= frame.MaxColumns {
			line("%s", text)
			text = " "
		}
		text += more
	}
	if len(counts) > 0 {
		line("%s", text)
	}
}

// causeOf names a loss in a line.
func causeOf(l drops.Loss) string {
	return strings.TrimRight(l.Reason+" "+l.Where, " ")
}
