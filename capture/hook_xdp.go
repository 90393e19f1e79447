package capture

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/cilium/ebpf"

	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// An xdpHook is our own program at the XDP hook of an interface where no other runs.
type xdpHook struct {
	ifi     xdp.Interface
	mode    Mode
	filter  packetFilter
	verdict Verdict     // what the program returns for every packet
	asks    question    // what the program asks the card
	stamps  *cardStamps // nil = packets have only the host's stamps
	notice  func(error)

	source  Source
	program program
	watch   *xdp.HookWatch
}

func newXDPHook(p point, o *Options, q question) (*xdpHook, error) {
	h := &xdpHook{ifi: p.ifi, mode: o.Mode, verdict: Pass, asks: q, source: newSource(p.ifi, XDP), notice: o.notice}
	if o.follows() && o.Mode == Auto && p.ifi.Driver == "bonding" {
		h.mode = Generic // in native mode the program would run in the bond's devices, which have their own
	}
	if o.Sink {
		h.verdict = Drop
	}
	if q.time {
		h.stamps = &cardStamps{kind: o.Stamp, notice: o.notice}
	}
	var err error
	if h.filter, err = p.filter.direct(); q.tag && err == nil {
		h.filter, err = p.filter.both()
	}
	return h, err
}

func (h *xdpHook) sources() []Source { return []Source{h.source} }

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
	own := constants{
		samplerVarSource:  first,
		samplerVarHook:    index,
		samplerVarVerdict: uint32(h.verdict),
	}
	if !h.asks.isNone() {
		asking := maps.Clone(own)
		maps.Copy(asking, h.asks.constants())
		h.program, err = k.load(loading{
			name:   samplerProgSampleCard,
			filter: h.filter, with: with, own: asking,
			adjust: func(spec *ebpf.ProgramSpec) { bind(spec, h.ifi.Index) },
		})
		if err != nil && !h.asks.time && !hasGone(h.ifi.Index) {
			k.options.notice(fmt.Errorf("packets of %s come without the card's %s: load the program that asks for it: %w", h.ifi.Name, strings.Join(h.asks.names(), ", "), err))
			h.asks = question{}
			delete(h.filter.bodies, headStub)
		}
	}
	if h.asks.isNone() {
		h.program, err = k.load(loading{
			name:   samplerProgSampleXdp,
			filter: h.filter, with: with, own: own,
		})
	}
	if err != nil {
		return support.ExplainLoad("load the sampling program", err)
	}
	h.source.Asked = h.asks.names()
	if h.source.Sampler, err = h.program.info(); err != nil || h.stamps == nil {
		return err
	}
	return h.stamps.open(&h.ifi)
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
	if off := xdp.SwitchedOff(link); off != nil {
		h.notice(fmt.Errorf("attaching has switched off %v until the capture ends", off))
	}
	return h.stamps.begin(&h.ifi)
}

func (h *xdpHook) check() error {
	own := xdp.Program(h.source.Sampler)
	return h.watch.CheckRuns(own, own)
}

func (h *xdpHook) detach() error { return errors.Join(h.stamps.end(), h.program.detach()) }

func (h *xdpHook) close() error {
	if h.watch != nil {
		h.watch.Close()
	}
	return errors.Join(h.stamps.close(), h.program.close())
}
