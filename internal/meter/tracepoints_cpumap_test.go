package meter

import (
	"fmt"
	"maps"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A packet for another CPU counts when it is queued and when it is taken. Those of another
// program's cpumap do not count.
func TestCPUMap(t *testing.T) {
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
	for i, test := range []struct {
		name     string
		program  func(n *network) asm.Instructions
		verdicts EventCount
		more     map[Case]EventCount
	}{
		{
			name:     "pass",
			program:  func(*network) asm.Instructions { return verdict(int32(xdp.Pass)) },
			verdicts: EventCount{Packets: frames, Passed: frames},
		},
		{
			name:     "drop",
			program:  func(*network) asm.Instructions { return verdict(int32(xdp.Drop)) },
			verdicts: EventCount{Packets: frames, Dropped: frames},
		},
		{
			name: "redirect",
			program: func(n *network) asm.Instructions {
				out := n.addVeth("out0", true)
				n.gro("out0p") // or the peer does not take what is redirected to it
				return redirectTo(out)
			},
			verdicts: EventCount{Packets: frames, Redirected: frames},
			more: map[Case]EventCount{
				{Event: Redirect, From: "rx0"}:               {Events: frames, Packets: frames},
				{Event: DevmapXmit, From: "rx0", To: "out0"}: {Events: frames, Packets: frames},
			},
		},
		{
			name: "redirect fails",
			program: func(n *network) asm.Instructions {
				down := n.addVeth("down0", false)
				n.gro("down0p") // or newer kernels refuse it before they look whether it is up
				return redirectTo(down)
			},
			verdicts: EventCount{Packets: frames, Dropped: frames},
			more: map[Case]EventCount{
				{Event: RedirectErr, From: "rx0", Errno: unix.ENETDOWN}: {Events: frames, Drops: frames},
			},
		},
	} {
		if !testnet.Shared(i) {
			continue
		}
		t.Run(test.name, func(t *testing.T) {
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

// newCPUMap returns a map with one entry: CPU 0, with a program for its packets, or with none if
// prog is nil.
func (n *network) newCPUMap(ins asm.Instructions) *ebpf.Map {
	n.t.Helper()
	entry := struct { // struct bpf_cpumap_val of linux/bpf.h
		Queue   uint32 // its length
		Program int32
	}{Queue: 192}
	if ins != nil {
		entry.Program = int32(n.load(ins, ebpf.AttachXDPCPUMap).FD())
	}
	m := n.newMap(&ebpf.MapSpec{Type: ebpf.CPUMap, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	n.put(m, entry)
	return m
}
