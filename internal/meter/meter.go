// Package meter counts packets and events around the XDP hook. Each kind of counters is one type
// with Open, Read, Follow and Close.
//
// All counters are cumulative since Open. They are kept in the kernel, one slot per CPU. Read does
// not reset them, so any number of readers may call it concurrently, even after the counted program
// is gone, and each computes its own differences. A reading is not an atomic snapshot: packets that
// arrive meanwhile may be in one of its numbers and not yet in another. Once traffic has ended, it
// is exact.
//
// If the interface has no XDP program, we attach one of ours, which counts. If it has one, a BPF
// trampoline (fentry or fexit) traces it and leaves it unmodified. A bpf_link holds either
// attachment: the kernel detaches the program when the process ends, however it ends. Packets that
// an interface sends are counted at its egress: see package tc.
package meter

// A Tally is a number of packets, and their bytes, including the fragments of packets in several
// buffers. Its memory layout is that of struct tally in bpf/include/verdict.h, so maps with such
// values are read into it.
type Tally struct {
	Packets, Bytes uint64
}

// Add adds another tally, of another CPU for example.
func (t *Tally) Add(o Tally) {
	t.Packets += o.Packets
	t.Bytes += o.Bytes
}

// Sum adds up tallies, such as those of all CPUs.
func Sum(tallies []Tally) (sum Tally) {
	for _, t := range tallies {
		sum.Add(t)
	}
	return sum
}

// Subtract takes away an earlier reading of the same counters.
func (t *Tally) Subtract(before Tally) {
	t.Packets -= before.Packets
	t.Bytes -= before.Bytes
}
