package drops

import "github.com/xdpcap/xdpcap/internal/meter"

// A device is an interface of a network namespace, which keeps its index when it is renamed.
type device struct{ netns, ifindex uint32 }

func deviceOf(c *stackCause) device { return device{c.At.Netns, c.At.Ifindex} }

// deviceNames has one name for each device. A device that is renamed has causes with the old name
// and causes with the new one: the name is that of the cause whose counter rose last.
type deviceNames struct {
	latest map[device]string
	counts map[stackCause]uint64 // of the previous reading
}

// update takes the names from the next reading of all causes.
func (n *deviceNames) update(causes map[stackCause]Tally) {
	latest, counts := make(map[device]string), make(map[stackCause]uint64, len(causes))
	for c, tally := range causes {
		counts[c] = tally.Packets
		d, name := deviceOf(&c), meter.Text(c.At.Name[:])
		before, known := n.latest[d]
		rose := tally.Packets > n.counts[c]
		isRenamed := rose && name != before
		switch {
		case c.At.Ifindex == 0: // no device
		case !known || isRenamed:
			latest[d] = name
		case latest[d] == "": // no other cause has renamed it in this reading
			latest[d] = before
		}
	}
	n.latest, n.counts = latest, counts
}
