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

// addHookMap adds a program for each slot of a pinned hook map. All are one source: each tells its verdict in its
// records.
func (k *sampler) addHookMap(p plan) (err error) {
	if k.hookMap, err = xdp.OpenHookMap(p.ifi.Name, samplerProgSampleXdp); err != nil {
		return err
	}
	source := uint32(len(k.sources))
	k.sources = append(k.sources, Interface{Interface: p.ifi, Hook: TailCall})
	for verdict := range xdp.Verdict(xdp.Slots) {
		prog, err := k.loadSlot(p, source, verdict, true)
		if err != nil {
			return err
		}
		k.programs = append(k.programs, program{prog: prog, attach: func(prog *ebpf.Program) (io.Closer, error) {
			slot, err := k.hookMap.Put(verdict, prog)
			if !errors.Is(err, unix.EINVAL) {
				return slot, err
			}
			// What calls the map does not take packets of several buffers, and then the map takes no program that does.
			plain, err := k.loadSlot(p, source, verdict, false)
			if err != nil {
				return nil, err
			}
			defer plain.Close() // the map holds on to it
			return k.hookMap.Put(verdict, plain)
		}})
	}
	return k.name(k.programs[len(k.programs)-1].prog)
}

func (k *sampler) loadSlot(p plan, source uint32, verdict xdp.Verdict, frags bool) (*ebpf.Program, error) {
	spec := k.spec.Copy()
	if !frags {
		spec.Programs[samplerProgSampleXdp].Flags &^= unix.BPF_F_XDP_HAS_FRAGS
	}
	prog, err := k.load(spec, samplerProgSampleXdp, constants{
		samplerVarSource:  source,
		samplerVarVerdict: uint32(verdict),
	}, p.filter)
	if err != nil {
		return nil, support.ExplainLoad(fmt.Sprintf("load the sampling program for verdict %s", verdict), err)
	}
	return prog, nil
}
