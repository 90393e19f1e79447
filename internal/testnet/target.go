package testnet

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// UDP destination ports to which a Target does not answer XDP_PASS.
const (
	DropPort    = 9
	AbortPort   = 10
	TxPort      = 11
	UnknownPort = 12 // for NoVerdict
)

// SlowPort is the UDP source port of packets for which a Target of the kind Slow runs at least
// SlowTime, by the kernel's clock.
const (
	SlowPort = 13
	SlowTime = 2 * time.Millisecond
)

// NoVerdict is what a Target returns for UnknownPort: a number that is not one of the kernel's
// verdicts.
const NoVerdict xdp.Verdict = 77

// A TargetKind is one of the programs of testdata/target.c.
type TargetKind string

const (
	Rewriting   TargetKind = targetProgRewritingTargetProgram // changes what it passes: MAC address and a VLAN tag
	Hooked      TargetKind = targetProgHookedTarget           // calls its hook map before it returns
	HookedFrags TargetKind = targetProgHookedTargetFrags      // the same, for packets in several buffers
	Waiting     TargetKind = targetProgWaitingTarget          // keeps packets until OpenGate
	Slow        TargetKind = targetProgSlowTarget             // takes SlowTime for packets from SlowPort
	InDevmap    TargetKind = targetProgDevmapTarget           // for AttachInDevmap
	InCPUMap    TargetKind = targetProgCpumapTarget           // for AttachInCPUMap
)

// A Target is an XDP program that a capture must not disturb. It is attached to Rx in native mode,
// or in a map behind Rx.
type Target struct {
	coll  *ebpf.Collection
	prog  *ebpf.Program
	links []link.Link
}

// NewTarget loads a program without attaching it. Needs root.
func NewTarget(kind TargetKind) (*Target, error) {
	spec, err := loadTarget()
	if err != nil {
		return nil, err
	}
	for name := range spec.Programs {
		if name != string(kind) {
			delete(spec.Programs, name) // a hook map takes only programs of one kind, with frags or without
		}
	}
	coll, err := ebpf.NewCollection(spec)
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", kind, err)
	}
	return &Target{coll: coll, prog: coll.Programs[string(kind)]}, nil
}

// AttachTarget loads a program and attaches it to an interface of a namespace. Needs root.
func AttachTarget(ns *Namespace, ifname string, kind TargetKind) (*Target, error) {
	t, err := NewTarget(kind)
	if err != nil {
		return nil, err
	}
	if err := t.AttachAlso(ns, ifname); err != nil {
		t.coll.Close()
		return nil, err
	}
	return t, nil
}

// AttachAlso attaches the program to one more interface.
func (t *Target) AttachAlso(ns *Namespace, ifname string) error {
	if err := ns.Do(func() error { return t.link(t.prog, ifname) }); err != nil {
		return fmt.Errorf("attach the target to %s: %w", ifname, err)
	}
	return nil
}

// link runs inside the namespace.
func (t *Target) link(prog *ebpf.Program, ifname string) error {
	netif, err := net.InterfaceByName(ifname)
	if err != nil {
		return err
	}
	l, err := link.AttachXDP(link.XDPOptions{Program: prog, Interface: netif.Index, Flags: link.XDPDriverMode})
	if err == nil {
		t.links = append(t.links, l)
	}
	return err
}

// AttachInDevmap attaches a program to an interface that redirects every packet to the interface
// with the index to, in the same namespace. The redirect goes through the entry of a devmap, where
// t's program runs. The peer of the second interface needs GRO to accept the frames.
func (t *Target) AttachInDevmap(ns *Namespace, ifname string, to int) error {
	return t.attachInMap(ns, ifname, ebpf.DevMap, uint32(to))
}

// AttachInCPUMap attaches a program to an interface that redirects every packet to CPU 0 through
// the entry of a cpumap, where this program runs.
func (t *Target) AttachInCPUMap(ns *Namespace, ifname string) error {
	const queue = 256 // packets
	return t.attachInMap(ns, ifname, ebpf.CPUMap, queue)
}

// attachInMap makes a map with one entry, a struct bpf_devmap_val or bpf_cpumap_val of linux/bpf.h.
// Both have 32 bits, here first, before the program.
func (t *Target) attachInMap(ns *Namespace, ifname string, kind ebpf.MapType, first uint32) error {
	err := ns.Do(func() error {
		m, err := ebpf.NewMap(&ebpf.MapSpec{Type: kind, KeySize: 4, ValueSize: 8, MaxEntries: 1})
		if err != nil {
			return err
		}
		defer m.Close() // the program keeps it alive
		if err := m.Put(uint32(0), [2]uint32{first, uint32(t.prog.FD())}); err != nil {
			return err
		}
		redirect, err := ebpf.NewProgram(&ebpf.ProgramSpec{
			Name:  "redirect",
			Type:  ebpf.XDP,
			Flags: unix.BPF_F_XDP_HAS_FRAGS, // like the program in the map
			Instructions: asm.Instructions{
				asm.LoadMapPtr(asm.R1, m.FD()),
				asm.Mov.Imm(asm.R2, 0),
				asm.Mov.Imm(asm.R3, int32(xdp.Aborted)), // the verdict if there is no entry
				asm.FnRedirectMap.Call(),
				asm.Return(),
			},
			License: "Dual BSD/GPL",
		})
		if err != nil {
			return err
		}
		defer redirect.Close() // the link keeps it alive
		return t.link(redirect, ifname)
	})
	if err != nil {
		return fmt.Errorf("redirect from %s into a %v: %w", ifname, kind, err)
	}
	return nil
}

// Program returns the program, and Hook its map with a program for each verdict. Both are valid
// until Close.
func (t *Target) Program() *ebpf.Program { return t.prog }
func (t *Target) Hook() *ebpf.Map        { return t.coll.Maps[targetMapHook] }

// Verdicts returns the packets by verdict. Packets with any other number are at xdp.UnknownVerdict.
func (t *Target) Verdicts() (counts [xdp.VerdictSlots]uint64, err error) {
	for i := range counts {
		var perCPU []uint64
		if err := t.coll.Maps[targetMapVerdicts].Lookup(uint32(i), &perCPU); err != nil {
			return counts, fmt.Errorf("read the target's counters: %w", err)
		}
		for _, n := range perCPU {
			counts[i] += n
		}
	}
	return counts, nil
}

// HasPacket tells whether a target of the kind Waiting has begun with a packet.
func (t *Target) HasPacket() (bool, error) {
	var begun uint64
	err := t.coll.Maps[targetMapGate].Lookup(uint32(0), &begun)
	return begun > 0, err
}

// OpenGate lets a target of the kind Waiting return its verdict.
func (t *Target) OpenGate() error { return t.coll.Maps[targetMapGate].Put(uint32(1), uint64(1)) }

// Close detaches the program.
func (t *Target) Close() error {
	var errs []error
	for _, l := range t.links {
		errs = append(errs, l.Close())
	}
	t.coll.Close()
	return errors.Join(errs...)
}
