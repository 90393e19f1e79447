package testnet

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

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

// NoVerdict is a Target's return value for UnknownPort: a number that is not one of the kernel's
// verdicts.
const NoVerdict xdp.Verdict = 77

// UDP destination ports at which a Target of the kind Reasoning drops a packet for a reason. It
// passes all others.
const (
	BlockedPort   = 1    // REASON_BLOCKED
	NoBackendPort = 2    // REASON_NO_BACKEND, with the verdict XDP_ABORTED
	SilentPort    = 3    // 0, no reason
	NumberPort    = 1000 // and all above: the port, for which its enum has no name
)

// A TargetKind is one of the programs of testdata/target.c.
type TargetKind string

const (
	Rewriting   TargetKind = targetProgRewritingTargetProgram // changes packets that it passes: MAC address and a VLAN tag
	Hooked      TargetKind = targetProgHookedTarget           // calls its hook map before it returns
	HookedFrags TargetKind = targetProgHookedTargetFrags      // the same, for packets in several buffers
	Waiting     TargetKind = targetProgWaitingTarget          // keeps packets until OpenGate
	Slow        TargetKind = targetProgSlowTarget             // takes SlowTime for packets from SlowPort
	Reasoning   TargetKind = targetProgReasoningTarget        // writes into a map why it drops a packet
	InDevmap    TargetKind = targetProgDevmapTarget           // for an entry of a devmap
	InCPUMap    TargetKind = targetProgCpumapTarget           // for an entry of a cpumap
)

// A Target is an XDP program that a capture must not disturb. It is attached to Rx in native mode.
type Target struct {
	coll  *ebpf.Collection
	prog  *ebpf.Program
	links []link.Link
}

// TargetSpec returns the programs of testdata/target.c, for tests that attach them in a way of
// their own.
func TargetSpec() (*ebpf.CollectionSpec, error) { return loadTarget() }

// TargetObject is the object file of testdata/target.c.
func TargetObject() []byte { return _TargetBytes }

// NewTarget loads a program without attaching it. Needs root.
func NewTarget(kind TargetKind) (*Target, error) {
	spec, err := loadTarget()
	if err != nil {
		return nil, err
	}
	// A hook map takes only programs of one kind, with frags or without.
	only := spec.Programs[string(kind)]
	spec.Programs = map[string]*ebpf.ProgramSpec{string(kind): only}
	used := make(map[string]bool)
	for _, ins := range only.Instructions {
		used[ins.Reference()] = true
	}
	maps.DeleteFunc(spec.Maps, func(name string, _ *ebpf.MapSpec) bool { return !used[name] })
	clear(spec.Variables)
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
	l, err := attachXDP(ns, ifname, t.prog, link.XDPDriverMode)
	if err != nil {
		return fmt.Errorf("attach the target to %s: %w", ifname, err)
	}
	t.links = append(t.links, l)
	return nil
}

// detach detaches an XDP program at once. Closing its link does that later if another test is just
// starting a process, which has a copy of all descriptors until it executes its program.
func detach(l link.Link) error { return errors.Join(l.Detach(), l.Close()) }

// attachXDP attaches a program to an interface of a namespace.
func attachXDP(ns *Namespace, ifname string, prog *ebpf.Program, mode link.XDPAttachFlags) (l link.Link, err error) {
	err = ns.Do(func() error {
		netif, err := net.InterfaceByName(ifname)
		if err != nil {
			return err
		}
		l, err = link.AttachXDP(link.XDPOptions{Program: prog, Interface: netif.Index, Flags: mode})
		return err
	})
	return l, err
}

// Program returns the program, Hook its map with a program for each verdict, and Reasons that of a
// Reasoning one. All are valid until Close.
func (t *Target) Program() *ebpf.Program { return t.prog }
func (t *Target) Hook() *ebpf.Map        { return t.coll.Maps[targetMapHook] }
func (t *Target) Reasons() *ebpf.Map     { return t.coll.Maps[targetMapReasons] }

// ReplaceBy attaches another one in the place of t, until t is closed.
func (t *Target) ReplaceBy(other *Target) error { return t.links[0].Update(other.prog) }

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

// HasPacket reports whether a target of the kind Waiting has begun with a packet.
func (t *Target) HasPacket() (bool, error) {
	begun, err := t.Packets()
	return begun > 0, err
}

// Packets is the number of packets with which a target of the kind Waiting has begun.
func (t *Target) Packets() (begun uint64, err error) {
	err = t.coll.Maps[targetMapGate].Lookup(uint32(0), &begun)
	return begun, err
}

// OpenGate lets a target of the kind Waiting return its verdict.
func (t *Target) OpenGate() error { return t.coll.Maps[targetMapGate].Put(uint32(1), uint64(1)) }

// Close detaches the program.
func (t *Target) Close() error {
	var errs []error
	for _, l := range t.links {
		errs = append(errs, detach(l))
	}
	t.links = nil
	t.coll.Close()
	return errors.Join(errs...)
}
