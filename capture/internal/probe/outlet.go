package probe

import (
	"maps"
	"sync/atomic"

	"github.com/xdpcap/xdpcap/capture/packet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// maxOutlets is the most names of outlets that are cached: interfaces may come and go for weeks,
// and adding a name copies the cache.
const maxOutlets = 1024

// outlets is a cache of outlets' names. A name is looked up for the first packet to the outlet, and
// again if maxOutlets others were looked up since.
type outlets struct {
	interfaces *xdp.Names // nil if no source has outlets
	// The map is never changed, only replaced by a larger one, because the outputs read it
	// concurrently.
	known atomic.Pointer[map[packet.Outlet]string]
	last  packet.Outlet // the last one learned
}

// learn looks up the name of an outlet. It belongs to the reader's goroutine.
func (o *outlets) learn(to packet.Outlet) {
	if to == o.last || o.interfaces == nil {
		return
	}
	o.last = to
	if _, ok := o.name(to); ok {
		return
	}
	name := to.String()
	if !to.IsElsewhere() {
		if found, err := o.interfaces.Name(to.Index()); err == nil {
			name = found
		}
	}
	larger := map[packet.Outlet]string{to: name}
	if known := o.known.Load(); known != nil && len(*known) < maxOutlets {
		maps.Copy(larger, *known)
	}
	o.known.Store(&larger)
}

// name returns the name of an outlet, if it is known. Any goroutine may call it.
func (o *outlets) name(to packet.Outlet) (name string, ok bool) {
	if known := o.known.Load(); known != nil {
		name, ok = (*known)[to]
	}
	return name, ok
}

// OpenOutlets makes the reader look up the names of outlets.
func (r *Reader) OpenOutlets() (err error) {
	r.outlets.interfaces, err = xdp.OpenNames()
	return err
}

// CloseOutlets ends that. It may be called again.
func (r *Reader) CloseOutlets() {
	if r.outlets.interfaces != nil {
		r.outlets.interfaces.Close()
	}
	r.outlets.interfaces = nil
}

// OutletName returns the name of an outlet, if it is known. Any goroutine may call it.
func (r *Reader) OutletName(to packet.Outlet) (name string, ok bool) { return r.outlets.name(to) }
