package drops

import (
	"fmt"
	"maps"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// failures are the packets whose losses the xdp tracepoints report.
type failures struct {
	aborted, tx uint64 // in native mode
	redirects   uint64 // in native and in generic mode
	generic     uint64 // aborted and tx in generic mode: these packets are also in reading.generic
}

// inDriver returns the failures that a driver may count as its drops.
func (f failures) inDriver() uint64 { return f.aborted + f.tx + f.redirects }

// addEvents adds the losses that the xdp tracepoints report, except those that are also causes of
// the stack, and those of AF_XDP sockets. It sets r.failures.
func (r *reading) addEvents(m *Meter, events meter.EventCounts) {
	r.Missed += events.Missed
	all := sumOfCPUs(events)
	toSockets := make(map[Loss]uint64)    // failed redirects to AF_XDP sockets
	fullQueues := make(map[uint32]uint64) // packets that found a queue of a cpumap full, by the map's id
	for e, sum := range all {
		if e.Event == meter.CPUMapEnqueue {
			fullQueues[e.MapID] += sum.Drops
		}
	}
	for e, sum := range all {
		lost := sum.Drops
		if lost == 0 {
			continue
		}
		l := Loss{Stage: XDP}
		l.Device, l.Netns = m.deviceOfEvent(e)
		switch {
		case e.MapID != 0:
			l.Where = fmt.Sprintf("map %d", e.MapID)
		case e.To != "":
			l.Where = "to " + e.To
		}
		switch e.Event {
		case meter.RedirectErr:
			l.Reason = "redirect: " + errorWords(e.Errno)
			r.failures.redirects += lost
			if e.MapType == ebpf.CPUMap && e.Errno == unix.ENOSPC {
				// In generic mode CPUMapEnqueue also reports these packets, with their CPU, if its
				// map is counted.
				known := min(lost, fullQueues[e.MapID])
				fullQueues[e.MapID] -= known
				lost -= known
			}
			if reason, ok := socketReasons[e.Errno]; ok && e.MapType == ebpf.XSKMap {
				l.Reason = reason
				toSockets[l] += lost
				continue
			}
		case meter.Exception:
			l.Reason = e.Verdict.SlotName()
			lost = r.addException(e.Verdict, sum)
		case meter.DevmapXmit:
			l.Reason = "devmap: " + errorWords(e.Errno)
		case meter.BulkTx:
			l.Reason = "tx: " + errorWords(e.Errno)
		case meter.CPUMapEnqueue:
			l.Reason = fmt.Sprintf("cpumap: queue of CPU %d is full", e.ToCPU)
		case meter.CPUMapKthread:
			l.Reason = "cpumap: dropped on the other CPU"
		default:
			continue
		}
		if m.inNamespace && m.iface == nil && l.Device == "" {
			addTo(r.Unclear, l, Tally{Packets: lost}) // a cpumap may be used in any namespace
			continue
		}
		r.addUnseen(l, Tally{Packets: lost})
	}
	r.addSockets(m, toSockets)
}

// sumOfCPUs returns the events of all CPUs, including those of former cases.
func sumOfCPUs(events meter.EventCounts) map[meter.Case]meter.EventCount {
	all := make(map[meter.Case]meter.EventCount)
	maps.Copy(all, events.Former)
	for e, perCPU := range events.Cases {
		sum := meter.SumEvents(perCPU)
		sum.Add(all[e])
		all[e] = sum
	}
	return all
}

// addException adds the packets of an aborted or unknown verdict, or of a failed tx, to r.failures.
// It returns those that are counted as losses at the hook.
func (r *reading) addException(verdict xdp.Verdict, n meter.EventCount) (lost uint64) {
	// Foreign packets are those that another interface's program redirected: the stack has them.
	lost, generic := minus(n.Drops, n.Foreign), n.Generic
	if verdict == xdp.Tx && r.hasTxCause {
		lost, generic = minus(lost, generic), 0 // the stack has the generic ones as a cause
	}
	r.failures.generic += generic
	if native := minus(lost, generic); verdict == xdp.Tx {
		r.failures.tx += native
	} else {
		r.failures.aborted += native
	}
	return lost
}

// deviceOfEvent returns Loss.Device and Loss.Netns of an event.
func (m *Meter) deviceOfEvent(e meter.Case) (device string, netns uint32) {
	if m.iface != nil {
		return "", 0
	}
	if e.Netns != m.netns {
		netns = e.Netns
	}
	return e.From, netns
}

func errorWords(e unix.Errno) string {
	if e == 0 {
		return "no error told"
	}
	return e.Error()
}
