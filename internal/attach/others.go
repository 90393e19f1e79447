package attach

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// Refusals reports failed attempts of other processes to attach an XDP program where one is
// attached already, in the network namespace of the thread that opened it. Next belongs to one
// goroutine; Close ends it.
type Refusals struct {
	reader  *ringbuf.Reader
	closers []io.Closer // in the order in which they were opened
}

// A Refusal is a failed attempt.
type Refusal struct {
	Thread string // the name of the thread that tried to attach
	Index  int    // of the interface; 0 = unknown
}

// OpenRefusals begins to watch. Refusals have the index of the interface only if the kernel permits
// fentry programs.
func OpenRefusals() (*Refusals, error) {
	const tried = "watch which XDP programs of others the kernel refuses"
	here, err := xdp.Traced(xdp.Interface{})
	if err != nil {
		return nil, err
	}
	spec, err := refusalsHere(refusalsVarProcess, os.Getpid())
	if err == nil {
		err = Set(spec, map[string]any{refusalsVarTracedNetns: here[refusalsVarTracedNetns]})
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", tried, err)
	}
	r := new(Refusals)
	if err := r.open(spec); err != nil {
		return nil, errors.Join(support.ExplainLoad(tried, err), r.Close())
	}
	return r, nil
}

func (r *Refusals) open(spec *ebpf.CollectionSpec) error {
	var others struct {
		Program  *ebpf.Program `ebpf:"xdpcap_others"`
		Ring     *ebpf.Map     `ebpf:"others"`
		Attempts *ebpf.Map     `ebpf:"attempts"`
	}
	types := xdp.KernelTypes()
	if err := spec.LoadAndAssign(&others, &ebpf.CollectionOptions{Cache: types}); err != nil {
		return err
	}
	defer others.Attempts.Close() // the programs keep it
	r.closers = append(r.closers, others.Ring, others.Program)
	var tracers struct {
		ByLink *ebpf.Program `ebpf:"xdpcap_by_link"`
		ByFD   *ebpf.Program `ebpf:"xdpcap_by_fd"`
	}
	attempts := map[string]*ebpf.Map{refusalsMapAttempts: others.Attempts}
	if err := spec.LoadAndAssign(&tracers, &ebpf.CollectionOptions{Cache: types, MapReplacements: attempts}); err == nil {
		r.closers = append(r.closers, tracers.ByLink, tracers.ByFD)
		r.trace(tracers.ByLink, tracers.ByFD)
	}
	l, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: "netlink_extack", Program: others.Program})
	if err != nil {
		return err
	}
	r.closers = append(r.closers, l)
	if r.reader, err = ringbuf.NewReader(others.Ring); err == nil {
		r.closers = append(r.closers, r.reader)
	}
	return err
}

// trace attaches either both tracers or neither. With one tracer, an attempt by the other function
// could be confused with an earlier one.
func (r *Refusals) trace(tracers ...*ebpf.Program) {
	var links []io.Closer
	for _, p := range tracers {
		l, err := link.AttachTracing(link.TracingOptions{Program: p})
		if err != nil {
			closeAll(links)
			return
		}
		links = append(links, l)
	}
	r.closers = append(r.closers, links...)
}

// Next waits for the next refusal. The error is os.ErrClosed after Close.
func (r *Refusals) Next() (Refusal, error) {
	record, err := r.reader.Read()
	if err != nil {
		return Refusal{}, err
	}
	var raw refusalsRefusal
	if _, err := binary.Decode(record.RawSample, binary.NativeEndian, &raw); err != nil {
		return Refusal{}, err
	}
	return Refusal{Thread: unix.ByteSliceToString(raw.Thread[:]), Index: int(raw.Ifindex)}, nil
}

// Concerns reports whether the program of an interface may have been in the way: at the interface
// of the attempt, or above it.
func (r Refusal) Concerns(ifi xdp.Interface) bool {
	if r.Index == 0 || r.Index == ifi.Index {
		return true
	}
	above, err := (&xdp.Interface{Index: r.Index}).Above()
	return err == nil && slices.Contains(above, ifi.Index)
}

// Close ends Next.
func (r *Refusals) Close() error {
	slices.Reverse(r.closers) // the reader first
	return closeAll(r.closers)
}
