package probe

import (
	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/capture/packet"
	"github.com/xdpcap/xdpcap/internal/attach"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A RedirectHook has programs at the exits of the two functions by which the kernel redirects
// packets, in native and in generic mode. They run for the packets of all interfaces, and keep
// those of one interface for which the function returns an error. Packets that the target accepts
// and loses later, such as those of a bulk, are not seen.
type RedirectHook struct{ interfaceHook }

func newRedirectHook(p Point) *RedirectHook {
	return &RedirectHook{newInterfaceHook(p.Interface, p.Filter, packet.FailedRedirect)}
}

func (h *RedirectHook) Load(k *Sampler, slot, number uint32) error {
	own, err := xdp.Traced(h.ifi)
	if err != nil {
		return err
	}
	for _, name := range []string{kernel.SamplerProgXdpcapRedirect, kernel.SamplerProgXdpcapGeneric} {
		if err := h.loadProgram(k, "load the program that sees failed redirects", Loading{Name: name, Slot: slot, Number: number, Own: own}); err != nil {
			return err
		}
	}
	return nil
}

func (h *RedirectHook) Attach() (err error) {
	h.attached, err = attach.Kernel(h.ifi, "attach the program that sees failed redirects", h.Programs...)
	return err
}
