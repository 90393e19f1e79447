package probe

import (
	"maps"
	"sync/atomic"

	"github.com/xdpcap/xdpcap/capture/packet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// maxOutlets is the size at which the cache of names is emptied: interfaces may come and go for
// weeks, and adding a name copies the cache.
const maxOutlets = 1024

// outlets is a cache of the names of packet.Outlets: the interfaces through which XDP programs send
// packets. A name is looked up for the first packet to the outlet, and again after the cache was
// emptied.
type outlets struct {
	interfaces *xdp.Names // nil = no names are looked up: no source has outlets, or after the end
	// The map is never changed, only replaced, because the outputs read it concurrently.
	cached atomic.Pointer[map[packet.Outlet]string]
	last   packet.Outlet // of the last call of learn
}

// learn adds the name of an outlet to the cache, if it is not there. It belongs to the reader's
// goroutine.
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
	if cached := o.cached.Load(); cached != nil && len(*cached) < maxOutlets {
		maps.Copy(larger, *cached)
	}
	o.cached.Store(&larger)
}

// name returns the name of an outlet, if it is cached. Any goroutine may call it.
func (o *outlets) name(to packet.Outlet) (name string, ok bool) {
	if cached := o.cached.Load(); cached != nil {
		name, ok = (*cached)[to]
	}
	return name, ok
}

// OpenOutlets makes the reader look up the names of outlets.
func (r *Reader) OpenOutlets() (err error) {
	r.outlets.interfaces, err = xdp.OpenNames()
	return err
}

// CloseOutlets ends the look-ups; names stay cached. It may be called again.
func (r *Reader) CloseOutlets() {
	if r.outlets.interfaces != nil {
		r.outlets.interfaces.Close()
	}
	r.outlets.interfaces = nil
}

// OutletName returns the name of an outlet, if it was looked up. Any goroutine may call it.
func (r *Reader) OutletName(to packet.Outlet) (name string, ok bool) { return r.outlets.name(to) }
