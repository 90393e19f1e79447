package meter

import (
	"github.com/cilium/ebpf"

	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/internal/attach"
)

// SetFilter lets the programs of spec that classify packets count only those that a filter takes.
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
