package packet

import (
	"fmt"
	"strings"
	"time"

	"github.com/xdpcap/xdpcap/internal/message"
)

// A LossCause is why packets find the rings full.
type LossCause int

const (
	Burst      LossCause = iota // more came at once than a ring holds; later packets were not lost
	SmallRings                  // rings fill up again and again, although the reader sometimes waits for packets
	SlowReader                  // the reader never has to wait
	SlowOutput                  // the reader never has to wait, and spends most of its time in the outputs or the loop over Packets
)

// A Loss is the error that Options.Notice gets when packets begin to be lost because a ring is
// full. It comes once in a session, within about a second or when the session ends. Its figures
// start at most half a second before the first loss.
type Loss struct {
	Sources []Source      // whose packets were lost
	Lost    uint64        // packets
	Wanted  uint64        // packets to be captured, including the lost ones
	Elapsed time.Duration // the time in which these came, by CLOCK_MONOTONIC
	Rate    float64       // of Wanted, in packets per second: the higher one of the rates before and after the loss was noticed
	Size    int           // mean len(Packet.Data) of the packets captured so far; 0 = none
	Buffer  int           // bytes of each CPU's ring
	Cause   LossCause

	// Idle, at SmallRings, is the share of time in which the reader waits. Room, at SlowReader and
	// SlowOutput, is the share of packets that find room in the rings. Both are from 0 to 1, of the
	// last half second.
	Idle, Room float64

	// Enough is an Options.Buffer that helps, in bytes: at Burst, one that would have held the lost
	// packets, too, at their mean size; at SmallRings, one that holds the packets of EnoughTime at
	// this rate. 0 if the size is not known or there is not enough memory.
	Enough int
}

// EnoughTime is how long a ring of [Loss].Enough bytes has room without a reader, at SmallRings. A
// reader rarely waits longer for a CPU.
const EnoughTime = 20 * time.Millisecond

func (l *Loss) Error() string {
	var labels []string
	for _, src := range l.Sources {
		labels = append(labels, src.Label())
	}
	size := ""
	if l.Size > 0 {
		size = fmt.Sprintf(" of %d bytes on average", l.Size)
	}
	cause := fmt.Sprintf("more came at once than a ring of %s holds", message.Kibibytes(l.Buffer))
	switch l.Cause {
	case SmallRings:
		cause = fmt.Sprintf("rings of %s fill up again and again, although the reader is idle %.0f %% of the time",
			message.Kibibytes(l.Buffer), 100*l.Idle)
	case SlowReader:
		cause = fmt.Sprintf("the reader is always busy, and only %.0f %% of packets find room", 100*l.Room)
	case SlowOutput:
		cause = fmt.Sprintf("the output is always busy, and only %.0f %% of packets find room", 100*l.Room)
	}
	return fmt.Sprintf("%s: %d of %d packets lost within %.1f s, at %.0f packets per second%s: %s",
		strings.Join(labels, ","), l.Lost, l.Wanted, l.Elapsed.Seconds(), l.Rate, size, cause)
}
