package capture

import (
	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/internal/attach"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A redirectHook has programs at the exits of the two functions by which the kernel redirects
// packets, in native and in generic mode. They run for the packets of all interfaces, and see those
// of one interface for which the function returns an error. A packet that the target accepts and
// loses later, such as in a bulk, is not seen.
type redirectHook struct{ interfaceHook }

func newRedirectHook(p point) *redirectHook {
	return &redirectHook{newInterfaceHook(p.ifi, p.filter, FailedRedirect)}
}

func (h *redirectHook) load(k *sampler, first, index uint32) error {
	own, err := xdp.Traced(h.ifi)
	if err != nil {
		return err
	}
	for _, name := range []string{kernel.SamplerProgXdpcapRedirect, kernel.SamplerProgXdpcapGeneric} {
		if err := h.add(k, "load the program that sees failed redirects", loading{name: name, first: first, index: index, own: own}); err != nil {
			return err
		}
	}
	return nil
}

func (h *redirectHook) attach() (err error) {
	h.attached, err = attach.Kernel(h.ifi, "attach the program that sees failed redirects", h.programs...)
	return err
}
