package ring

import (
	"errors"
	"fmt"
	"math/bits"
	"os"

	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/support"
)

// MaxSnapLen is the largest snaplen that any transport can carry, in bytes.
const MaxSnapLen = int(kernel.SamplerLimitRING_MAX_SAMPLE_SIZE)

// Bounds and default of Options.Size, in bytes.
const (
	MinSize     = 128 << 10 // always has room for one of the longest records
	MaxSize     = 1 << 30
	DefaultSize = 8 << 20
)

// ErrPerfRefused means that this process may not use perf's rings: TransportRing works without
// them.
var ErrPerfRefused = errors.New("perf's rings are refused")

// Options are the transport of records from the kernel, and its sizes.
type Options struct {
	Transport     Transport
	Size          int         // of each CPU's ring, in bytes; 0 = the default
	Immediate     bool        // the ring becomes readable at each packet
	Interruptible bool        // packets may interrupt a program while it writes to a ring
	Notice        func(error) // as in capture.Options; nil = none
}

func (r *Options) notice(err error) {
	if r.Notice != nil && err != nil {
		r.Notice(err)
	}
}

// Fit chooses the transport and the size of each CPU's ring.
func (r *Options) Fit() error {
	switch {
	case !r.Transport.isKnown():
		return fmt.Errorf("%v: no such transport", r.Transport)
	case r.Size != 0 && (r.Size < MinSize || r.Size > MaxSize):
		return fmt.Errorf("buffer of %d bytes per CPU: must be %d KiB to %d MiB", r.Size, MinSize>>10, MaxSize>>20)
	}
	return r.Transport.kind().fit(r)
}

// A ringMemory is how much memory the rings of a transport take, and how much is available.
type ringMemory struct {
	cpus      int                // CPUs that have a ring
	each      func(size int) int // memory in bytes of a ring with `size` bytes for records
	available machine.Memory
}

// all is how many bytes the rings of all CPUs take together.
func (m ringMemory) all(size int) uint64 { return uint64(m.each(size)) * uint64(m.cpus) }

// affordable halves the size of a ring until those of all CPUs take at most a quarter of the
// available memory, or the size is MinSize.
func (m ringMemory) affordable(size int) int {
	for size > MinSize && m.all(size) > m.available.Bytes/4 {
		size /= 2
	}
	return size
}

// fitInto fills in the size of each CPU's ring, a power of two of pages. All rings together may
// take a quarter of the available memory, because they keep it while the session lasts. If the
// default size takes more, it is lowered; `whySmaller` is then the reason, for a notice.
func (r *Options) fitInto(m ringMemory) (whySmaller, err error) {
	asked := r.Size
	if asked == 0 {
		asked = DefaultSize
	}
	asked = powerOfTwoPages(asked)
	fits := m.affordable(asked)
	if fits < asked {
		text := fmt.Sprintf("rings of %s for %d CPUs would take more than a quarter of the available memory, which is %v",
			message.Kibibytes(asked), m.cpus, m.available)
		if r.Size != 0 {
			return nil, message.Errorf(support.ErrBufferTooLarge, "%s: at most %s fit", text, message.Kibibytes(fits))
		}
		whySmaller = fmt.Errorf("%s: ring size lowered to %s", text, message.Kibibytes(fits))
	}
	r.Size = fits
	return whySmaller, nil
}

// Enough returns how large each ring must be to hold this many more packets of this size, in bytes;
// 0 = that is not possible.
func (r *Options) Enough(size int, packets uint64) int {
	const around = 16 // bytes that a transport adds to a record, at most
	need := uint64(r.Size) + packets*uint64(recordSize+size+around)
	if need > uint64(r.Transport.kind().maxRing) {
		return 0
	}
	larger, memory := powerOfTwoPages(int(need)), r.Transport.kind().memory()
	memory.available.Bytes += memory.all(r.Size) // the present rings will be freed first
	if memory.affordable(larger) < larger {
		return 0
	}
	return larger
}

// fitEither makes the transport TransportRing if such rings are possible, and else TransportPerf.
func (r *Options) fitEither() error {
	if r.trySharedRings() {
		return nil
	}
	return r.fitPerf()
}

// powerOfTwoPages rounds up to a power of two, and to at least one page, as both transports need.
func powerOfTwoPages(n int) int { return 1 << bits.Len(uint(max(n, os.Getpagesize())-1)) }
