package testnet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// ReceiverOptions are additional functions of the program of a Receiver. With the zero value it has
// only the two instructions that return the verdict.
type ReceiverOptions struct {
	Count bool // count packets and bytes

	// Sequence also checks the numbers that the Generator and UDPFrame write into frames. Implies
	// Count.
	Sequence bool

	// Copy copies each packet into a ring of 8 MiB, one after the other, whether or not anybody
	// reads them: the least that a capture does. Not together with Count. Packets must come on one
	// CPU only.
	Copy bool

	Generic bool // in generic mode, not in the driver's
}

// Receiver is an attached XDP program that returns the same verdict for every packet. The cost of a
// capture is measured against a Receiver alone. It accepts packets of several buffers, so the MTU
// does not matter. Its methods may be called concurrently. Close is called once, after all others.
type Receiver struct {
	prog     *ebpf.Program
	link     link.Link
	counters *ebpf.Map // nil: not counting
	copies   *ebpf.Map // nil: not copying
}

// AttachReceiver loads a program and attaches it to an interface of a namespace,
// in native mode. Needs root.
func AttachReceiver(ns *Namespace, ifname string, verdict xdp.Verdict, opts ReceiverOptions) (*Receiver, error) {
	r := &Receiver{}
	err := r.load(verdict, opts)
	if err == nil {
		mode := link.XDPDriverMode
		if opts.Generic {
			mode = link.XDPGenericMode
		}
		r.link, err = attachXDP(ns, ifname, r.prog, mode)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("attach receiver to %s: %w", ifname, err), r.Close())
	}
	return r, nil
}

func (r *Receiver) load(verdict xdp.Verdict, opts ReceiverOptions) (err error) {
	if opts.Copy || opts.Count || opts.Sequence {
		return r.loadFrom(verdict, opts)
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

// loadFrom loads a program of generator.c, and its map.
func (r *Receiver) loadFrom(verdict xdp.Verdict, opts ReceiverOptions) error {
	spec, err := loadGenerator()
	if err != nil {
		return err
	}
	if err := errors.Join(spec.Variables["verdict"].Set(uint32(verdict)), spec.Variables["check_seq"].Set(opts.Sequence)); err != nil {
		return err
	}
	if opts.Copy {
		var objs struct {
			Prog   *ebpf.Program `ebpf:"copy_packet"`
			Copies *ebpf.Map     `ebpf:"copies"`
		}
		err = spec.LoadAndAssign(&objs, nil)
		r.prog, r.copies = objs.Prog, objs.Copies
		return err
	}
	var objs struct {
		Prog     *ebpf.Program `ebpf:"count_packets"`
		Counters *ebpf.Map     `ebpf:"counters"`
	}
	err = spec.LoadAndAssign(&objs, nil)
	r.prog, r.counters = objs.Prog, objs.Counters
	return err
}

// Counts are the counters of a counting Receiver, cumulative since it was attached.
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

// Copies returns the packets that a Receiver with Copy has copied.
func (r *Receiver) Copies() (*Copies, error) {
	if r.copies == nil {
		return nil, errors.New("receiver was attached without Copy")
	}
	memory, err := r.copies.Memory()
	if err != nil {
		return nil, fmt.Errorf("map the receiver's copies: %w", err)
	}
	return &Copies{memory: memory}, nil
}

// Copies is the ring that a Receiver with Copy fills. It is for one goroutine, and valid until the
// Receiver is closed.
type Copies struct {
	memory *ebpf.Memory
	at     uint64 // how many bytes were taken
}

// copyRing is COPY_RING in generator.c.
const copyRing = 8 << 20

// Take reads the bytes that were copied since the last call into buffer, as much as fits, and
// returns their number; 0 if there are no new ones. Bytes that were overwritten before they could
// be read are skipped.
func (c *Copies) Take(buffer []byte) (n int, err error) {
	var word [8]byte
	if _, err := c.memory.ReadAt(word[:], int64(unsafe.Offsetof(generatorCopies{}.Head))); err != nil {
		return 0, err
	}
	head := binary.NativeEndian.Uint64(word[:])
	if head-c.at > copyRing {
		c.at = head - copyRing
	}
	start := c.at % copyRing
	n = int(min(head-c.at, copyRing-start, uint64(len(buffer))))
	if n == 0 {
		return 0, nil
	}
	if _, err := c.memory.ReadAt(buffer[:n], int64(unsafe.Offsetof(generatorCopies{}.Bytes))+int64(start)); err != nil {
		return 0, err
	}
	c.at += uint64(n)
	return n, nil
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
		errs = append(errs, detach(r.link))
		r.link = nil
	}
	// Program's and Map's Close take nil.
	return errors.Join(append(errs, r.prog.Close(), r.counters.Close(), r.copies.Close())...)
}
