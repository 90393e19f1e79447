package probe

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/cilium/ebpf"

	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/capture/packet"
	"github.com/xdpcap/xdpcap/internal/attach"
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// An XDPHook is our own program at the XDP hook of an interface that has no XDP program yet.
type XDPHook struct {
	ownHook
	mode    packet.Mode
	verdict packet.Verdict // the program's return value for every packet
	request cardRequest    // the metadata that the program requests from the card
	stamps  *CardStamps    // nil = packets have only the host's stamps
	options *Options
}

func newXDPHook(p Point, o *Options, q cardRequest) *XDPHook {
	h := &XDPHook{ownHook: newOwnHook(p.Interface, p.Filter, packet.XDP), mode: o.Mode, verdict: packet.Pass, request: q, options: o}
	if len(o.Patterns) > 0 && o.Mode == packet.Auto && p.Interface.Driver == "bonding" {
		h.mode = packet.Generic // in native mode the program would run in the bond's devices, which have hooks of their own
	}
	if o.Sink {
		h.verdict = packet.Drop
	}
	if q.time {
		h.stamps = &CardStamps{Kind: o.Stamp, notice: o.Notice}
	}
	return h
}

// Card returns the metadata from the card; zero if the program requests none.
func (h *XDPHook) Card() Card {
	if h.request.isNone() {
		return Card{}
	}
	return Card{Stamps: h.stamps, Hashes: hashKind(&h.ifi)}
}

func (h *XDPHook) Load(k *Sampler, slot, number uint32) (err error) {
	with, err := k.companions(&h.Source)
	if err != nil {
		return err
	}
	p, err := h.load(k, Loading{Slot: slot, Number: number, filter: h.filter, companions: with})
	if err != nil {
		return err
	}
	h.Source.CardMetadata = h.request.names()
	if err := h.addProgram(p); err != nil || h.stamps == nil {
		return err
	}
	return h.stamps.open(&h.ifi)
}

// Prepare implements Exchanger.
func (h *XDPHook) Prepare(k *Sampler, _ *Options, p Point, slot, number uint32) (err error) {
	h.next, err = h.load(k, Loading{Slot: slot, Number: number, filter: p.Filter})
	return err
}

// load loads the program. If one that requests metadata from the card cannot be loaded, it gives a
// notice and loads one without, unless the packets need the card's stamps. h.request is then empty.
func (h *XDPHook) load(k *Sampler, l Loading) (p *ebpf.Program, err error) {
	l.Name, l.Own = kernel.SamplerProgXdpcapXdp, Constants{kernel.SamplerVarVerdict: uint32(h.verdict)}
	if !h.request.isNone() {
		asking := l
		asking.Name, asking.Own = kernel.SamplerProgXdpcapCard, maps.Clone(l.Own)
		maps.Copy(asking.Own, h.request.constants())
		asking.Adjust = func(spec *ebpf.ProgramSpec) { bind(spec, h.ifi.Index) }
		p, err = k.Load(asking)
		if err != nil && !h.request.time && !xdp.HasGone(h.ifi.Index) {
			k.Options.Notice(fmt.Errorf("packets of %s come without the card's %s: load the program that asks for it: %w", h.ifi.Name, strings.Join(h.request.names(), ", "), err))
			h.request = cardRequest{}
		}
	}
	if h.request.isNone() {
		p, err = k.Load(l)
	}
	if err != nil {
		return nil, support.ExplainLoad("load the sampling program", err)
	}
	return p, nil
}

func (h *XDPHook) Attach() (err error) {
	if h.attached, err = attach.XDP(h.ifi, h.Programs[0], h.mode); err != nil {
		return h.options.NotAtXDP(h.ifi, err)
	}
	h.Source.Mode = h.attached.Mode
	if off := h.attached.SwitchedOff; off != nil {
		h.options.Notice(fmt.Errorf("attaching has switched off %v until the capture ends", off))
	}
	return h.stamps.begin(&h.ifi)
}

func (h *XDPHook) Detach() error { return errors.Join(h.stamps.end(), h.ownHook.Detach()) }

func (h *XDPHook) Close() error { return errors.Join(h.stamps.Close(), h.ownHook.Close()) }

// HasSwitchedOff reports whether attaching has switched off LRO or hardware GRO, which join packets
// before XDP.
func (h *XDPHook) HasSwitchedOff() bool { return h.attached != nil && h.attached.SwitchedOff != nil }

// AttachAgain attaches the program again, which the driver has lost.
func (h *XDPHook) AttachAgain() error { return h.attached.Again() }
