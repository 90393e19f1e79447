package drops

import (
	"fmt"
	"maps"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// failures are packets that the tracepoints of XDP say were lost.
type failures struct {
	aborted, tx, redirects uint64 // in native mode; redirects in both
	generic                uint64 // the rest: reading.generic has these packets, too
}

// all are those that a driver may count as its drops.
func (f failures) all() uint64 { return f.aborted + f.tx + f.redirects }

// addEvents adds the losses that the xdp tracepoints tell, except those that are causes of the
// stack.
func (r *reading) addEvents(m *Meter, events meter.EventCounts) {
	f := &r.failures
	r.Missed += events.Missed
	all := make(map[meter.Case]meter.EventCount)
	maps.Copy(all, events.Former)
	for e, perCPU := range events.Cases {
		sum := meter.SumEvents(perCPU)
		sum.Add(all[e])
		all[e] = sum
	}
	toSockets, full := make(map[Loss]uint64), make(map[uint32]uint64)
	for e, sum := range all {
		if e.Event == meter.CPUMapEnqueue {
			full[e.MapID] += sum.Drops
		}
	}
	for e, sum := range all {
		if sum.Drops == 0 {
			continue
		}
		l := Loss{Stage: XDP, Where: mapOf(e)}
		if l.Where == "" && e.To != "" {
			l.Where = "to " + e.To
		}
		switch e.Event {
		case meter.RedirectErr:
			l.Reason = "redirect: " + errorWords(e.Errno)
			f.redirects += sum.Drops
			if e.MapType == ebpf.CPUMap && e.Errno == unix.ENOSPC {
				// Generic mode: CPUMapEnqueue has them, too, with their CPU, if it sees the map.
				known := min(sum.Drops, full[e.MapID])
				full[e.MapID] -= known
				sum.Drops -= known
			}
			if reason, ok := socketReasons[e.Errno]; ok && e.MapType == ebpf.XSKMap {
				l.Reason = reason
				l.Device, l.Netns = m.deviceOf(e)
				toSockets[l] += sum.Drops
				continue
			}
		case meter.Exception:
			l.Reason = e.Verdict.SlotName()
			sum.Drops = less(sum.Drops, sum.Foreign)
			if e.Verdict == xdp.Tx && r.txApart {
				sum.Drops, sum.Generic = less(sum.Drops, sum.Generic), 0
			}
			f.generic += sum.Generic
			if native := less(sum.Drops, sum.Generic); e.Verdict == xdp.Tx {
				f.tx += native
			} else {
				f.aborted += native
			}
		case meter.DevmapXmit:
			l.Reason, l.Where = "devmap: "+errorWords(e.Errno), "to "+e.To
		case meter.BulkTx:
			l.Reason = "tx: " + errorWords(e.Errno)
		case meter.CPUMapEnqueue:
			l.Reason = fmt.Sprintf("cpumap: queue of CPU %d is full", e.ToCPU)
		case meter.CPUMapKthread:
			l.Reason = "cpumap: dropped on the other CPU"
		default:
			continue
		}
		if l.Device, l.Netns = m.deviceOf(e); m.here && m.iface == nil && l.Device == "" {
			r.add(r.Unclear, l, Tally{Packets: sum.Drops}) // a cpumap may be used in any namespace
			continue
		}
		r.addUnseen(l, Tally{Packets: sum.Drops})
	}
	r.addSockets(m, toSockets)
}

// deviceOf is Loss.Device of an event, and Loss.Netns.
func (m *Meter) deviceOf(e meter.Case) (device string, netns uint32) {
	if m.iface != nil {
		return "", 0
	}
	if e.Netns != m.netns {
		netns = e.Netns
	}
	return e.From, netns
}

func mapOf(e meter.Case) string {
	if e.MapID == 0 {
		return ""
	}
	return fmt.Sprintf("map %d", e.MapID)
}

func errorWords(e unix.Errno) string {
	if e == 0 {
		return "no error told"
	}
	return e.Error()
}
