package capture

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/cilium/ebpf"

	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/internal/attach"
	"github.com/xdpcap/xdpcap/internal/support"
)

// An xdpHook is our own program at the XDP hook of an interface that has no XDP program yet.
type xdpHook struct {
	interfaceHook
	mode    Mode
	verdict Verdict     // what the program returns for every packet
	asks    question    // what the program asks the card
	stamps  *cardStamps // nil = packets have only the host's stamps; its methods then do nothing
	options *Options
}

func newXDPHook(p point, o *Options, q question) *xdpHook {
	h := &xdpHook{interfaceHook: newInterfaceHook(p.ifi, p.filter, XDP), mode: o.Mode, verdict: Pass, asks: q, options: o}
	if len(o.Patterns) > 0 && o.Mode == Auto && p.ifi.Driver == "bonding" {
		h.mode = Generic // in native mode the program would run in the bond's devices, which have hooks of their own
	}
	if o.Sink {
		h.verdict = Drop
	}
	if q.time {
		h.stamps = &cardStamps{kind: o.Stamp, notice: o.notice}
	}
	return h
}

func (h *xdpHook) card() card {
	if h.asks.isNone() {
		return card{}
	}
	return card{stamps: h.stamps, hashes: hashKind(&h.ifi)}
}

func (h *xdpHook) load(k *sampler, first, index uint32) (err error) {
	with, err := k.companions(&h.source)
	if err != nil {
		return err
	}
	l := loading{name: kernel.SamplerProgXdpcapXdp, first: first, index: index, filter: h.filter, with: with, own: constants{kernel.SamplerVarVerdict: uint32(h.verdict)}}
	var p *ebpf.Program
	if !h.asks.isNone() {
		asking := l
		asking.name, asking.own = kernel.SamplerProgXdpcapCard, maps.Clone(l.own)
		maps.Copy(asking.own, h.asks.constants())
		asking.adjust = func(spec *ebpf.ProgramSpec) { bind(spec, h.ifi.Index) }
		p, err = k.load(asking)
		if err != nil && !h.asks.time && !hasGone(h.ifi.Index) {
			k.options.notice(fmt.Errorf("packets of %s come without the card's %s: load the program that asks for it: %w", h.ifi.Name, strings.Join(h.asks.names(), ", "), err))
			h.asks = question{}
		}
	}
	if h.asks.isNone() {
		p, err = k.load(l)
	}
	if err != nil {
		return support.ExplainLoad("load the sampling program", err)
	}
	h.source.Asked = h.asks.names()
	if err := h.take(p); err != nil || h.stamps == nil {
		return err
	}
	return h.stamps.open(&h.ifi)
}

func (h *xdpHook) attach() (err error) {
	if h.attached, err = attach.XDP(h.ifi, h.programs[0], h.mode); err != nil {
		return h.options.orPastXDP(h.ifi, err)
	}
	h.source.Mode = h.attached.Mode
	if off := h.attached.SwitchedOff; off != nil {
		h.options.notice(fmt.Errorf("attaching has switched off %v until the capture ends", off))
	}
	return h.stamps.begin(&h.ifi)
}

func (h *xdpHook) detach() error { return errors.Join(h.stamps.end(), h.interfaceHook.detach()) }

func (h *xdpHook) close() error { return errors.Join(h.stamps.close(), h.interfaceHook.close()) }
