package meter

import (
	"fmt"
	"maps"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A packet for another CPU counts when it is queued and when it is taken. Those of another
// program's cpumap do not count.
func TestCPUMap(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	cpumap := n.newCPUMap(nil)
	n.attach(redirectThrough(cpumap))
	tp := n.open(TracepointOptions{})
	var others [2]*network
	for i := range others {
		others[i] = newNetwork(t)
	}
	others[0].attach(redirectThrough(others[0].newCPUMap(nil)))
	byProgram := others[1].openAll(TracepointOptions{Program: fmt.Sprint(n.programID())})
	others[0].send(frames)
	n.send(frames)

	for _, tp := range []*Tracepoints{tp, byProgram} {
		n.expect(tp, map[Case]EventCount{
			{Event: CPUMapEnqueue, MapID: mapID(t, cpumap), ToCPU: 0}: {Events: frames, Packets: frames},
			{Event: CPUMapKthread, MapID: mapID(t, cpumap)}:           {Packets: frames},
		})
	}
}

// A cpumap's entry may have its own program. Its verdicts are counted where the packets are taken,
// and its redirects have their own events, for the interface that the packets came from.
func TestCPUMapVerdicts(t *testing.T) {
	t.Parallel()
	for i, test := range []struct {
		name     string
		program  func(n *network) asm.Instructions
		verdicts EventCount
		more     map[Case]EventCount
	}{
		{
			"pass", func(*network) asm.Instructions { return verdict(int32(xdp.Pass)) },
			EventCount{Packets: frames, Passed: frames}, nil,
		},
		{
			"drop", func(*network) asm.Instructions { return verdict(int32(xdp.Drop)) },
			EventCount{Packets: frames, Dropped: frames}, nil,
		},
		{
			"redirect", func(n *network) asm.Instructions { return redirectTo(n.addOut()) },
			EventCount{Packets: frames, Redirected: frames}, map[Case]EventCount{
				{Event: Redirect, From: "rx0"}:               {Events: frames, Packets: frames},
				{Event: DevmapXmit, From: "rx0", To: "out0"}: {Events: frames, Packets: frames},
			},
		},
		{
			"redirect fails", func(n *network) asm.Instructions { return redirectTo(n.addDown()) },
			EventCount{Packets: frames, Dropped: frames}, map[Case]EventCount{
				{Event: RedirectErr, From: "rx0", Errno: unix.ENETDOWN}: {Events: frames, Drops: frames},
			},
		},
	} {
		if !testnet.Shared(i) {
			continue
		}
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			n := newNetwork(t)
			cpumap := n.newCPUMap(test.program(n))
			n.attach(redirectThrough(cpumap))
			tp := n.open(TracepointOptions{Redirects: true})
			n.send(frames)

			id := mapID(t, cpumap)
			want := map[Case]EventCount{
				{Event: Redirect, From: "rx0", MapID: id}: {Events: frames, Packets: frames},
				{Event: CPUMapEnqueue, MapID: id}:         {Events: frames, Packets: frames},
				{Event: CPUMapKthread, MapID: id}:         test.verdicts,
			}
			maps.Copy(want, test.more)
			n.expect(tp, want)
		})
	}
}

// A packet for another CPU whose queue is full is lost, and not queued. In generic mode the kernel
// does not count it as processed.
func TestCPUMapFull(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	cpumap := n.newCPUMapOf(1, nil)
	n.attachAs(redirectThrough(cpumap), link.XDPGenericMode)
	tp := n.open(TracepointOptions{})
	onCPU(t, 0, func() error { // a thread that the one that empties the queue does not interrupt
		policy := func(policy uint32) error {
			return unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: policy, Priority: policy}, 0)
		}
		if err := policy(unix.SCHED_FIFO); err != nil {
			return err
		}
		for i := range uint64(frames) {
			if err := n.sender.Send(testnet.UDPFrame(testnet.MinFrame, i)); err != nil {
				return err
			}
		}
		return policy(unix.SCHED_NORMAL)
	})
	full := Case{Event: CPUMapEnqueue, MapID: mapID(t, cpumap)}
	all := n.wait(tp, func(c map[Case]EventCount) bool { return c[full].Events == frames })
	got := all[full]
	if got.Drops == 0 || got.Packets == 0 || got.Packets+got.Drops != frames {
		t.Errorf("%+v, of %d packets", got, frames)
	}
	failed := Case{Event: RedirectErr, From: "rx0", MapID: full.MapID, MapType: ebpf.CPUMap, Errno: unix.ENOSPC}
	if all[failed].Drops != got.Drops {
		t.Errorf("%d redirects have failed, want %d: %v", all[failed].Drops, got.Drops, all)
	}
}

// newCPUMap returns a map with one entry: CPU 0, with a program for its packets, or with none if
// prog is nil.
func (n *network) newCPUMap(ins asm.Instructions) *ebpf.Map {
	n.t.Helper()
	return n.newCPUMapOf(192, ins)
}

// newCPUMapOf is newCPUMap with a queue for so many packets.
func (n *network) newCPUMapOf(queue uint32, ins asm.Instructions) *ebpf.Map {
	n.t.Helper()
	entry := struct { // struct bpf_cpumap_val of linux/bpf.h
		Queue   uint32 // its length
		Program int32
	}{Queue: queue}
	if ins != nil {
		entry.Program = int32(n.load(ins, ebpf.AttachXDPCPUMap).FD())
	}
	m := n.newMap(&ebpf.MapSpec{Type: ebpf.CPUMap, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	n.put(m, entry)
	return m
}
