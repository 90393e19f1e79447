package capture

import (
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// An xdpHook is a program of our own at the XDP hook of an interface where no other runs.
type xdpHook struct {
	ifi     xdp.Interface
	mode    Mode
	filter  packetFilter
	verdict Verdict // what the program returns for every packet

	source  Source
	program program
	watch   *xdp.HookWatch
}

func newXDPHook(p place, o *Options) (*xdpHook, error) {
	h := &xdpHook{ifi: p.ifi, mode: o.Mode, verdict: Pass, source: newSource(p.ifi, XDP)}
	if o.Sink {
		h.verdict = Drop
	}
	var err error
	h.filter, err = p.filter.direct()
	return h, err
}

func (h *xdpHook) sources() []Source { return []Source{h.source} }

func (h *xdpHook) load(k *sampler, first, index uint32) (err error) {
	h.program, err = k.load(samplerProgSampleXdp, h.filter, constants{
		samplerVarSource:  first,
		samplerVarHook:    index,
		samplerVarVerdict: uint32(h.verdict),
	}, nil)
	if err != nil {
		return support.ExplainLoad("load the sampling program", err)
	}
	h.source.Sampler, err = h.program.info()
	return err
}

func (h *xdpHook) attach() (err error) {
	if h.watch, err = xdp.WatchHook(h.ifi.Index); err != nil {
		return err
	}
	link, mode, err := xdp.Attach(h.program.Program, h.ifi, xdp.Mode(h.mode))
	if err != nil {
		return err
	}
	h.program.link, h.source.Mode = link, Mode(mode)
	return nil
}

func (h *xdpHook) check() error {
	own := xdp.Program(h.source.Sampler)
	return h.watch.CheckRuns(own, own)
}

func (h *xdpHook) detach() error { return h.program.detach() }

func (h *xdpHook) close() error {
	if h.watch != nil {
		h.watch.Close()
	}
	return h.program.close()
}
