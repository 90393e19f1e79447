package meter

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/net/bpf"

	"github.com/xdpcap/xdpcap/filter"
	filterebpf "github.com/xdpcap/xdpcap/filter/ebpf"
)

// setFilter lets the programs of spec that classify packets count only those that a filter takes.
// An XDP program reads the packet itself. Tracers and the program at egress read a copy of its
// beginning.
func setFilter(spec *ebpf.CollectionSpec, program []bpf.RawInstruction) error {
	const most = int(protocolsHeadLimitHEAD_BYTES)
	direct, err := filterebpf.Translate(program)
	if err != nil {
		return err
	}
	copied, err := filterebpf.TranslateBuffer(program, most)
	if err != nil {
		return err
	}
	for name, value := range map[string]any{
		protocolsVarFiltering:       true,
		protocolsVarFilteringLength: filter.ReadsLength(program),
		protocolsVarReach:           uint32(min(filter.Reach(program), most)),
	} {
		if err := spec.Variables[name].Set(value); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	for name, body := range map[string]struct {
		stub  string // the function of bpf/include/filter.h that the instructions replace
		insns asm.Instructions
	}{
		protocolsProgCountXdp:   {"filter", direct},
		protocolsProgCountEntry: {"filter_head", copied},
		protocolsProgNoteEntry:  {"filter_head", copied},
		protocolsProgCountSent:  {"filter_head", copied},
	} {
		if err := filterebpf.Inline(spec.Programs[name], body.stub, body.insns); err != nil {
			return err
		}
	}
	return nil
}
