package capture

import (
	"fmt"
	"math"
	"strings"

	"github.com/xdpcap/xdpcap/capture"
)

// headBytes is the snapshot length in the advice on -s: it holds the headers of most packets.
const headBytes = 128

// lossRemedy names the flags that help against a loss of packets in a session with these options,
// each with how much it helps, computed from the figures of the loss. printing is true if the
// session prints its packets.
func lossRemedy(l *capture.Loss, o capture.Options, printing bool) string {
	var help []string
	add := func(format string, args ...any) { help = append(help, fmt.Sprintf(format, args...)) }
	if l.Enough > 0 && l.Cause == capture.Burst {
		add("-B %s (holds such a burst)", flagSize(l.Enough))
	}
	if l.Enough > 0 && l.Cause == capture.SmallRings {
		add("-B %s (holds %v of it)", flagSize(l.Enough), capture.EnoughTime)
	}
	if l.Cause == capture.SlowOutput && printing {
		add("-w out.pcapng instead of printing (less work)")
	}
	if l.Size >= 2*headBytes {
		add("-s %d (at most %d %% of the bytes)", headBytes, 100*headBytes/l.Size+1)
	}
	if oneIn := math.Ceil(1/l.Room) * float64(o.Sample); l.Room > 0 && o.SampleVerdicts == nil && oneIn <= math.MaxUint32 {
		add("--sample %.0f (as many packets as find room now)", oneIn)
	}
	if lighter := o.Transport.Lighter(); l.Cause == capture.SlowReader && lighter != capture.TransportDefault {
		add("--transport %v (less work for each packet)", lighter)
	}
	if len(help) == 0 {
		add("a filter or --sample (fewer packets)")
	}
	return "what helps: " + strings.Join(help, ", ")
}

// flagSize formats a multiple of 1 KiB as the value of -B.
func flagSize(n int) string {
	if n%(1<<20) == 0 {
		return fmt.Sprintf("%dM", n>>20)
	}
	return fmt.Sprintf("%dk", n>>10)
}
