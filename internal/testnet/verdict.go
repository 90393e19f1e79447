package testnet

import (
	"errors"
	"fmt"
	"net"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// Action is what an XDP program returns, as in linux/bpf.h.
type Action uint32

// The verdicts that can be attached.
const (
	Aborted Action = iota
	Drop
	Pass
	TX
)

// VerdictOptions say what the program of a Verdict does besides returning. The
// zero value is the emptiest program there can be: two instructions.
type VerdictOptions struct {
	Count bool // count packets and bytes

	// Sequence looks at the frames' numbers, too, as the Generator and UDPFrame
	// write them. Implies Count.
	Sequence bool
}

// Verdict is an attached XDP program that returns the same for every packet:
// the receiver without a capture that one with is measured against. It takes
// packets of several buffers, so the MTU does not matter. Its methods may be
// called concurrently, Close once and last.
type Verdict struct {
	prog     *ebpf.Program
	link     link.Link
	counters *ebpf.Map // nil: not counting
}

// AttachVerdict loads a program and attaches it to an interface of a namespace,
// in native mode. Needs root.
func AttachVerdict(ns *Namespace, ifname string, action Action, opts VerdictOptions) (*Verdict, error) {
	v := &Verdict{}
	err := v.load(action, opts)
	if err == nil {
		err = ns.Do(func() error { return v.attach(ifname) })
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("attach verdict to %s: %w", ifname, err), v.Close())
	}
	return v, nil
}

func (v *Verdict) load(action Action, opts VerdictOptions) (err error) {
	if opts.Count || opts.Sequence {
		return v.loadCounting(action, opts)
	}
	v.prog, err = ebpf.NewProgram(&ebpf.ProgramSpec{
		Name:         "verdict",
		Type:         ebpf.XDP,
		Flags:        unix.BPF_F_XDP_HAS_FRAGS,
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, int32(action)), asm.Return()},
		License:      "Dual BSD/GPL",
	})
	return err
}

func (v *Verdict) loadCounting(action Action, opts VerdictOptions) error {
	spec, err := loadGenerator()
	if err != nil {
		return err
	}
	if err := spec.Variables["verdict"].Set(uint32(action)); err != nil {
		return err
	}
	if err := spec.Variables["check_seq"].Set(opts.Sequence); err != nil {
		return err
	}
	var objs struct {
		Prog     *ebpf.Program `ebpf:"count_packets"`
		Counters *ebpf.Map     `ebpf:"counters"`
	}
	if err := spec.LoadAndAssign(&objs, nil); err != nil {
		return err
	}
	v.prog, v.counters = objs.Prog, objs.Counters
	return nil
}

func (v *Verdict) attach(ifname string) error {
	netif, err := net.InterfaceByName(ifname)
	if err != nil {
		return err
	}
	v.link, err = link.AttachXDP(link.XDPOptions{
		Program:   v.prog,
		Interface: netif.Index,
		Flags:     link.XDPDriverMode,
	})
	return err
}

// Counts are what a counting Verdict saw, cumulative since it was attached.
type Counts struct {
	Packets uint64
	Bytes   uint64 // of whole frames, all their buffers included
	Gaps    uint64 // frames whose number is not the one before, on their CPU, plus one
}

// Counts reads the counters of each possible CPU, indexed by its number. They
// are exact once traffic has ended. It is an error for a Verdict that does not
// count.
func (v *Verdict) Counts() ([]Counts, error) {
	if v.counters == nil {
		return nil, errors.New("verdict was attached without Count")
	}
	var slots []generatorCounts
	if err := v.counters.Lookup(uint32(0), &slots); err != nil {
		return nil, fmt.Errorf("read verdict's counters: %w", err)
	}
	counts := make([]Counts, len(slots))
	for i, s := range slots {
		counts[i] = Counts{Packets: s.Packets, Bytes: s.Bytes, Gaps: s.Gaps}
	}
	return counts, nil
}

// Total is the sum of Counts over all CPUs.
func (v *Verdict) Total() (Counts, error) {
	counts, err := v.Counts()
	var sum Counts
	for _, c := range counts {
		sum.Packets += c.Packets
		sum.Bytes += c.Bytes
		sum.Gaps += c.Gaps
	}
	return sum, err
}

// Program is the attached program, for tests that trace it. It is valid until
// Close.
func (v *Verdict) Program() *ebpf.Program { return v.prog }

// Close detaches the program.
func (v *Verdict) Close() error {
	var errs []error
	if v.link != nil {
		errs = append(errs, v.link.Close())
	}
	// Program's and Map's Close take nil.
	return errors.Join(append(errs, v.prog.Close(), v.counters.Close())...)
}
