package testnet

import (
	"errors"
	"fmt"
	"net"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// ReceiverOptions say what else the program of a Receiver does. With the zero value it has two
// instructions, which return the verdict.
type ReceiverOptions struct {
	Count bool // count packets and bytes

	// Sequence checks the numbers that the Generator and UDPFrame write into frames, too. Implies
	// Count.
	Sequence bool
}

// Receiver is an attached XDP program that returns the same verdict for every packet. A capture's
// cost is the difference to a Receiver without it. It accepts packets of several buffers, so the
// MTU does not matter. Its methods may be called concurrently, Close once and last.
type Receiver struct {
	prog     *ebpf.Program
	link     link.Link
	counters *ebpf.Map // nil: not counting
}

// AttachReceiver loads a program and attaches it to an interface of a namespace,
// in native mode. Needs root.
func AttachReceiver(ns *Namespace, ifname string, verdict xdp.Verdict, opts ReceiverOptions) (*Receiver, error) {
	r := &Receiver{}
	err := r.load(verdict, opts)
	if err == nil {
		err = ns.Do(func() error { return r.attach(ifname) })
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("attach receiver to %s: %w", ifname, err), r.Close())
	}
	return r, nil
}

func (r *Receiver) load(verdict xdp.Verdict, opts ReceiverOptions) (err error) {
	if opts.Count || opts.Sequence {
		return r.loadCounting(verdict, opts)
	}
	r.prog, err = ebpf.NewProgram(&ebpf.ProgramSpec{
		Name:         "receiver",
		Type:         ebpf.XDP,
		Flags:        unix.BPF_F_XDP_HAS_FRAGS,
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, int32(verdict)), asm.Return()},
		License:      "Dual BSD/GPL",
	})
	return err
}

func (r *Receiver) loadCounting(verdict xdp.Verdict, opts ReceiverOptions) error {
	spec, err := loadGenerator()
	if err != nil {
		return err
	}
	if err := spec.Variables["verdict"].Set(uint32(verdict)); err != nil {
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
	r.prog, r.counters = objs.Prog, objs.Counters
	return nil
}

func (r *Receiver) attach(ifname string) error {
	netif, err := net.InterfaceByName(ifname)
	if err != nil {
		return err
	}
	r.link, err = link.AttachXDP(link.XDPOptions{
		Program:   r.prog,
		Interface: netif.Index,
		Flags:     link.XDPDriverMode,
	})
	return err
}

// Counts are what a counting Receiver saw, cumulative since it was attached.
type Counts struct {
	Packets uint64
	Bytes   uint64 // of whole frames, all their buffers included
	Gaps    uint64 // frames whose number does not follow that of the frame before on the same CPU
}

// Counts reads the counters of each possible CPU, by the CPU's number. They are exact once traffic
// has ended. It fails if the Receiver does not count.
func (r *Receiver) Counts() ([]Counts, error) {
	if r.counters == nil {
		return nil, errors.New("receiver was attached without Count")
	}
	var slots []generatorCounts
	if err := r.counters.Lookup(uint32(0), &slots); err != nil {
		return nil, fmt.Errorf("read the receiver's counters: %w", err)
	}
	counts := make([]Counts, len(slots))
	for i, s := range slots {
		counts[i] = Counts{Packets: s.Packets, Bytes: s.Bytes, Gaps: s.Gaps}
	}
	return counts, nil
}

// Total is the sum of Counts over all CPUs.
func (r *Receiver) Total() (Counts, error) {
	counts, err := r.Counts()
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
func (r *Receiver) Program() *ebpf.Program { return r.prog }

// ID returns the program's id. Tests need it because the name is not unique: other tests, which run
// at the same time, have programs of the same name.
func (r *Receiver) ID() (uint32, error) {
	p, err := xdp.Identify(r.prog)
	return p.ID, err
}

// Close detaches the program.
func (r *Receiver) Close() error {
	var errs []error
	if r.link != nil {
		errs = append(errs, r.link.Close())
	}
	// Program's and Map's Close take nil.
	return errors.Join(append(errs, r.prog.Close(), r.counters.Close())...)
}
