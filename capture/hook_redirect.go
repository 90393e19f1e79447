package capture

import (
	"errors"

	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A redirectHook has programs at the exits of the two functions by which the kernel redirects
// packets, in native and in generic mode. They run for the packets of all interfaces, and see those
// of one interface for which the function returns an error. A packet that the target accepts and
// loses later, such as in a bulk, is not seen.
type redirectHook struct {
	ifi    xdp.Interface
	filter packetFilter

	source   Source
	programs [2]program
	watch    *xdp.HookWatch
}

func newRedirectHook(p point) (*redirectHook, error) {
	filter, err := p.filter.copied()
	return &redirectHook{ifi: p.ifi, filter: filter, source: newSource(p.ifi, FailedRedirect)}, err
}

func (h *redirectHook) sources() []Source { return []Source{h.source} }

func (h *redirectHook) load(k *sampler, first, index uint32) (err error) {
	own, err := xdp.Traced(h.ifi)
	if err != nil {
		return err
	}
	own[samplerVarSource], own[samplerVarHook] = first, index
	for i, name := range []string{samplerProgSampleRedirect, samplerProgSampleGeneric} {
		if h.programs[i], err = k.load(loading{name: name, filter: h.filter, own: own}); err != nil {
			return support.ExplainLoad("load the program that sees failed redirects", err)
		}
	}
	h.source.Sampler, err = h.programs[0].info()
	return err
}

func (h *redirectHook) attach() (err error) {
	if h.watch, err = xdp.WatchHook(h.ifi.Index); err != nil {
		return err
	}
	for i := range h.programs {
		p := &h.programs[i]
		if p.link, err = xdp.AttachTracer(p.Program); err != nil {
			return support.ExplainLoad("attach the program that sees failed redirects", err)
		}
	}
	return nil
}

func (h *redirectHook) check() error { return h.watch.CheckExists() }

func (h *redirectHook) detach() error {
	return errors.Join(h.programs[0].detach(), h.programs[1].detach())
}

func (h *redirectHook) close() error {
	if h.watch != nil {
		h.watch.Close()
	}
	return errors.Join(h.programs[0].close(), h.programs[1].close())
}
