package capture

import (
	"errors"
	"fmt"
	"io"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A tailCallHook is a program for each slot of a pinned hook map. An XDP program calls the one for
// the verdict that it is about to return. Together they are one source, and each writes its verdict
// into its records.
type tailCallHook struct {
	filter   packetFilter
	source   Source
	hookMap  *xdp.HookMap
	programs [xdp.Slots]program // by verdict

	sampler *sampler // loads other programs where the map does not take the first ones
	first   uint32   // index of the source
}

func newTailCallHook(p place, o *Options) (*tailCallHook, error) {
	filter, err := p.filter.direct()
	if err != nil {
		return nil, err
	}
	return &tailCallHook{filter: filter, source: Source{Name: o.HookMap, Hook: TailCall}}, nil
}

func (h *tailCallHook) sources() []Source { return []Source{h.source} }

func (h *tailCallHook) load(k *sampler, first, _ uint32) (err error) {
	h.sampler, h.first = k, first
	if h.hookMap, err = xdp.OpenHookMap(h.source.Name, samplerProgSampleXdp); err != nil {
		return err
	}
	for verdict := range h.programs {
		if h.programs[verdict], err = h.loadSlot(xdp.Verdict(verdict), true); err != nil {
			return err
		}
	}
	return nil
}

// loadSlot loads the program for one verdict. With frags it takes packets in several buffers.
func (h *tailCallHook) loadSlot(verdict xdp.Verdict, frags bool) (program, error) {
	p, err := h.sampler.load(samplerProgSampleXdp, h.filter, constants{
		samplerVarSource:  h.first,
		samplerVarVerdict: uint32(verdict),
	}, func(spec *ebpf.ProgramSpec) {
		if !frags {
			spec.Flags &^= unix.BPF_F_XDP_HAS_FRAGS
		}
	})
	if err != nil {
		return p, support.ExplainLoad(fmt.Sprintf("load the sampling program for verdict %s", verdict), err)
	}
	return p, nil
}

func (h *tailCallHook) attach() (err error) {
	for verdict := range h.programs {
		p := &h.programs[verdict]
		if p.link, err = h.fill(xdp.Verdict(verdict), p); err != nil {
			return err
		}
	}
	h.source.Sampler, err = h.programs[len(h.programs)-1].info()
	return err
}

// fill puts the program into its slot. If the map's owner does not take packets in several buffers,
// the kernel refuses a program that does. Then fill replaces p by one that does not.
func (h *tailCallHook) fill(verdict xdp.Verdict, p *program) (io.Closer, error) {
	slot, err := h.hookMap.Put(verdict, p.Program)
	if !errors.Is(err, unix.EINVAL) {
		return slot, err
	}
	plain, err := h.loadSlot(verdict, false)
	if err != nil {
		return nil, err
	}
	p.close()
	*p = plain
	return h.hookMap.Put(verdict, p.Program)
}

// check looks whether the slots still hold the hook's programs.
func (h *tailCallHook) check() error {
	for verdict := range h.programs {
		if err := h.hookMap.Check(xdp.Verdict(verdict), h.programs[verdict].Program); err != nil {
			return err
		}
	}
	return nil
}

func (h *tailCallHook) detach() error {
	var errs []error
	for i := range h.programs {
		errs = append(errs, h.programs[i].detach())
	}
	return errors.Join(errs...)
}

func (h *tailCallHook) close() error {
	var errs []error
	for i := range h.programs {
		errs = append(errs, h.programs[i].close())
	}
	if h.hookMap != nil {
		errs = append(errs, h.hookMap.Close())
	}
	return errors.Join(errs...)
}
