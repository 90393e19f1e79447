// Package meter counts what happens around the XDP hook. Each kind of counters is one type with
// Open, Read and Close.
//
// All counters are cumulative since Open, in the kernel, one slot per CPU. Read takes nothing away:
// any number of readers may look, concurrently, and what each subtracts from what is its own
// business. A reading is not one instant: packets that arrive meanwhile may be in one of its
// numbers and not yet in another. Once traffic has ended, it is exact.
//
// Where the interface has no XDP program, one of ours is attached, which counts. Where it has one,
// that is traced by a BPF trampoline, unmodified. A bpf_link holds either attachment: the kernel
// detaches when the process ends, however it ends.
package meter

// A Tally is packets and their bytes, all buffers of a packet included.
type Tally struct {
	Packets, Bytes uint64
}

// Add adds another tally, of another CPU for example.
func (t *Tally) Add(o Tally) {
	t.Packets += o.Packets
	t.Bytes += o.Bytes
}
