package probe

import (
	"github.com/cilium/ebpf"

	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/capture/packet"
	"github.com/xdpcap/xdpcap/internal/attach"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// An Exchanger is a hook whose filter can be exchanged while it is attached. Each packet is seen by
// the programs with one of both filters, never by both.
type Exchanger interface {
	Hook
	// Prepare loads programs with the filters of p, which were compiled from o.Filter. slot and
	// number are as in Load.
	Prepare(k *Sampler, o *Options, p Point, slot, number uint32) error
	// Exchange replaces the attached programs by those of Prepare. Sources then returns the sources
	// of the new programs. After an error the former programs still run.
	Exchange(k *Sampler) error
	// Discard releases the programs of Prepare, unless Exchange has attached them.
	Discard() error
}

// An ownHook is the common part of hooks whose one program is xdpcap's own. The kernel can exchange
// it for another one atomically.
type ownHook struct {
	interfaceHook
	next *ebpf.Program // of Prepare; nil = none
}

func newOwnHook(ifi xdp.Interface, f attach.Filter, at packet.Hook) ownHook {
	return ownHook{interfaceHook: newInterfaceHook(ifi, f, at)}
}

// Exchange implements Exchanger.
func (h *ownHook) Exchange(*Sampler) error {
	now, err := identify(h.next)
	if err != nil {
		return err
	}
	if err := h.attached.Replace(h.next); err != nil {
		return err
	}
	former := h.Programs[0]
	h.Source.Sampler, h.Programs[0], h.next = now, h.next, nil
	return former.Close()
}

// Discard implements Exchanger.
func (h *ownHook) Discard() error {
	err := closePrograms(h.next)
	h.next = nil
	return err
}

// Prepare implements Exchanger.
func (h *TraceHook) Prepare(k *Sampler, o *Options, p Point, slot, number uint32) (err error) {
	next := *h
	next.fentry, next.fexit, next.replaces = nil, nil, &h.number
	if next.filter, err = h.filterOf(o, p); err != nil {
		return err
	}
	next.entry, next.exit = clone(h.entry), clone(h.exit)
	h.next = &next
	return next.Load(k, slot, number)
}

func clone(src *packet.Source) *packet.Source {
	if src == nil {
		return nil
	}
	own := *src
	return &own
}

// Exchange implements Exchanger. A packet that is in the traced program meanwhile keeps the filter
// of its entry until its exit.
func (h *TraceHook) Exchange(k *Sampler) error {
	next := h.next
	if err := k.setGate(next.number, kernel.SamplerGateWAITING); err != nil {
		return err
	}
	replace := func() error {
		if err := k.setGate(next.number, kernel.SamplerGateREPLACING); err != nil {
			return err
		}
		return k.barrier.Wait() // until the former tracers have seen the exits of their packets
	}
	if err := h.attached.ReplaceTracers(h.target.Target, replace, next.Tracers()...); err != nil {
		return err
	}
	if err := k.setGate(next.number, kernel.SamplerGateOPEN); err != nil {
		return err
	}
	former := h.Tracers()
	h.fentry, h.fexit, h.entry, h.exit, h.number, h.next = next.fentry, next.fexit, next.entry, next.exit, next.number, nil
	return closePrograms(former...)
}

// Discard implements Exchanger.
func (h *TraceHook) Discard() error {
	if h.next == nil {
		return nil
	}
	err := closePrograms(h.next.fentry, h.next.fexit)
	h.next = nil
	return err
}
