package capture

import (
	"fmt"

	"github.com/xdpcap/xdpcap/internal/errkind"
	"github.com/xdpcap/xdpcap/internal/machine"
)

// ringOptions are the Options that the rings of a session depend on.
type ringOptions struct {
	transport     Transport
	size          int         // of each CPU's ring, in bytes; 0 = the default
	immediate     bool        // each packet asks for its ring to be read
	interruptible bool        // packets may interrupt a program while it writes to a ring
	notice        func(error) // gives a Notice, unless the error is nil
}

func (o *Options) ringOptions() ringOptions {
	return ringOptions{transport: o.Transport, size: o.Buffer, immediate: o.Immediate, interruptible: o.StackDrops, notice: o.notice}
}

// A ringMemory says how much memory the rings of a transport take and how much there is.
type ringMemory struct {
	cpus      int                // CPUs that have a ring
	each      func(size int) int // memory in bytes of a ring with `size` bytes for records
	available machine.Memory
}

// all is how many bytes the rings of all CPUs take together.
func (m ringMemory) all(size int) uint64 { return uint64(m.each(size)) * uint64(m.cpus) }

// affordable halves the size of a ring until those of all CPUs take at most a quarter of the
// available memory, or the size is MinBuffer.
func (m ringMemory) affordable(size int) int {
	for size > MinBuffer && m.all(size) > m.available.Bytes/4 {
		size /= 2
	}
	return size
}

// fit fills in the size of each CPU's ring, a power of two of pages. All rings together may take a
// quarter of the available memory, because they keep it while the session lasts. A default size is
// lowered to that, and the error smaller says so.
func (r *ringOptions) fit(m ringMemory) (smaller, err error) {
	asked := r.size
	if asked == 0 {
		asked = DefaultBuffer
	}
	asked = powerOfTwoPages(asked)
	fits := m.affordable(asked)
	if fits < asked {
		text := fmt.Sprintf("rings of %s for %d CPUs would take more than a quarter of the available memory, which is %v",
			kibibytes(asked), m.cpus, m.available)
		if r.size != 0 {
			return nil, errkind.Errorf(ErrBufferTooLarge, "%s: at most %s fit", text, kibibytes(fits))
		}
		smaller = fmt.Errorf("%s: ring size lowered to %s", text, kibibytes(fits))
	}
	r.size = fits
	return smaller, nil
}

// enough returns how large each ring must be for this many more packets of this size, or 0 if that
// is not possible.
func (r *ringOptions) enough(size int, packets uint64) int {
	const around = 16 // bytes that a transport adds to a record, at most
	need := uint64(r.size) + packets*uint64(factsSize+size+around)
	if need > uint64(r.transport.kind().maxRing) {
		return 0
	}
	larger, memory := powerOfTwoPages(int(need)), r.transport.kind().memory()
	memory.available.Bytes += memory.all(r.size) // the present rings will be freed first
	if memory.affordable(larger) < larger {
		return 0
	}
	return larger
}

// kibibytes formats a power of two that is at least 1 KiB.
func kibibytes(n int) string {
	if n < 1<<20 {
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}
