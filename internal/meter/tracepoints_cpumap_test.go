package meter

import (
	"testing"

	"github.com/cilium/ebpf"
)

// Packets for another CPU are queued on one and taken on the other; another program's cpumap does not count.
func TestCPUMap(t *testing.T) {
	n := newNetwork(t)
	cpumap := n.newCPUMap()
	n.attach(redirectThrough(cpumap))
	tp := n.open(TracepointOptions{})
	var others [2]*network
	for i := range others {
		others[i] = newNetwork(t)
	}
	others[0].attach(redirectThrough(others[0].newCPUMap()))
	byProgram := others[1].openAll(TracepointOptions{Program: n.programID()})
	others[0].send(frames)
	n.send(frames)

	enqueue := Case{Event: CPUMapEnqueue, MapID: mapID(t, cpumap), ToCPU: 0}
	kthread := Case{Event: CPUMapKthread, MapID: mapID(t, cpumap)}
	for _, tp := range []*Tracepoints{tp, byProgram} {
		got := n.wait(tp, func(c map[Case]EventCount) bool { return c[kthread].Packets >= frames })
		if c := got[enqueue]; c != (EventCount{Events: frames, Packets: frames}) {
			t.Errorf("queued %+v", c)
		}
		c := got[kthread]
		if c.Packets != frames || c.Drops != 0 || c.Events == 0 || c.Sched > c.Events {
			t.Errorf("taken %+v", c)
		}
		delete(got, enqueue)
		delete(got, kthread)
		if len(got) > 0 {
			t.Errorf("counted, too: %+v", got)
		}
	}
}

// newCPUMap has one entry: CPU 0.
func (n *network) newCPUMap() *ebpf.Map {
	n.t.Helper()
	m := n.newMap(&ebpf.MapSpec{Type: ebpf.CPUMap, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	n.put(m, uint32(192)) // the length of its queue
	return m
}
