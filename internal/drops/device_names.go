package drops

import "github.com/xdpcap/xdpcap/internal/meter"

// A device is an interface of a network namespace, which keeps its index when it is renamed.
type device struct{ netns, ifindex uint32 }

func deviceOf(c *stackCause) device { return device{c.At.Netns, c.At.Ifindex} }

// deviceNames has the names of devices that were renamed while they lost packets, so that all of a
// device's causes have one name: that of the cause whose counter rose last.
type deviceNames struct {
	latest map[device]string
	counts map[stackCause]uint64 // of the previous reading
}

// note looks at the next reading of all causes.
func (n *deviceNames) note(causes map[stackCause]Tally) {
	latest, counts := make(map[device]string), make(map[stackCause]uint64, len(causes))
	for c, tally := range causes {
		counts[c] = tally.Packets
		at, name := deviceOf(&c), meter.Text(c.At.Name[:])
		before, known := n.latest[at]
		switch rose := tally.Packets > n.counts[c]; {
		case c.At.Ifindex == 0:
		case !known || rose && name != before:
			latest[at] = name
		case latest[at] == "":
			latest[at] = before
		}
	}
	n.latest, n.counts = latest, counts
}
