package probe

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"

	"github.com/xdpcap/xdpcap/internal/support"
)

// A barrier waits for an RCU grace period, and so for BPF programs that are running: a program that
// was detached may still be handling a packet. The system call that puts a map into an array of
// maps waits for one before it returns (Linux 4.18, commit 1ae80cf31938). membarrier(2) also does,
// but it fails on a machine with nohz_full, and does not wait on one with a single CPU.
type barrier struct {
	inner, outer *ebpf.Map
}

// newBarrier makes the maps of a barrier.
func newBarrier() (b barrier, err error) {
	inner := ebpf.MapSpec{Name: "barrier_inner", Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1}
	outer := ebpf.MapSpec{Name: "barrier", Type: ebpf.ArrayOfMaps, KeySize: 4, ValueSize: 4, MaxEntries: 1, InnerMap: &inner}
	for _, m := range []struct {
		to   **ebpf.Map
		spec *ebpf.MapSpec
	}{{&b.inner, &inner}, {&b.outer, &outer}} {
		if *m.to, err = ebpf.NewMap(m.spec); err != nil {
			return barrier{}, errors.Join(support.ExplainLoad("create the map "+m.spec.Name, err), b.Close())
		}
	}
	return b, nil
}

// Wait returns when every BPF program that ran before the call has returned. That takes 10 to 50
// ms.
func (b barrier) Wait() error {
	if err := b.outer.Put(uint32(0), b.inner); err != nil {
		return fmt.Errorf("wait for running BPF programs: %w", err)
	}
	return nil
}

// Close removes the maps.
func (b barrier) Close() error { return errors.Join(b.inner.Close(), b.outer.Close()) }
