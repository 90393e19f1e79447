package lost

import (
	"fmt"
	"maps"
	"sync/atomic"

	"github.com/cilium/ebpf/btf"
)

// Words has the names of reasons and of functions, for a stream of packets. One goroutine passes
// each packet's address to Learn; then any goroutine may get its name from Function.
type Words struct {
	Reasons Reasons
	Symbols *Symbols

	// names are by address. The map is never changed, only replaced by a larger one, because
	// Function reads it concurrently.
	names atomic.Pointer[map[uint64]string]
	last  uint64 // the address of the last call of Learn
}

// OpenWords reads the kernel's reasons, and opens its list of functions.
func OpenWords(types *btf.Cache) (w *Words, err error) {
	w = new(Words)
	w.names.Store(new(map[uint64]string))
	if w.Reasons, err = KernelReasons(types); err != nil {
		return nil, err
	}
	if w.Symbols, err = OpenSymbols(); err != nil {
		return nil, err
	}
	return w, nil
}

// longestName is the maximum length in bytes of a function's name: it must fit into the comment of
// a packet in a file.
const longestName = 128

// Learn looks up the function at an address, unless an earlier call did. Only one goroutine may
// call it. A call with the same address as the call before costs only a comparison.
func (w *Words) Learn(address uint64) {
	if address == w.last {
		return
	}
	w.last = address
	known := *w.names.Load()
	if _, ok := known[address]; ok {
		return
	}
	name := w.Symbols.Name(address)
	larger := map[uint64]string{address: name[:min(len(name), longestName)]}
	maps.Copy(larger, known)
	w.names.Store(&larger)
}

// Function returns the name of the function at an address that Learn has looked up. For another
// address, or if the kernel hides names, it returns the address in hexadecimal. It is safe for
// concurrent use, even after Close.
func (w *Words) Function(address uint64) string {
	if name, ok := (*w.names.Load())[address]; ok {
		return name
	}
	return fmt.Sprintf("%#x", address)
}

// Close closes the list of functions.
func (w *Words) Close() error { return w.Symbols.Close() }
