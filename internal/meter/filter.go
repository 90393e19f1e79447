package meter

import (
	"github.com/cilium/ebpf"

	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/internal/attach"
)

// SetFilter restricts the programs of spec that classify packets to the packets that match a
// filter.
func SetFilter(spec *ebpf.CollectionSpec, program *filter.Program) error {
	f, err := attach.NewFilter(program, int(protocolsHeadLimitHEAD_BYTES))
	if err != nil {
		return err
	}
	if err := attach.Set(spec, f.Constants()); err != nil {
		return err
	}
	for _, p := range spec.Programs {
		if err := f.Put(p); err != nil {
			return err
		}
	}
	return nil
}
