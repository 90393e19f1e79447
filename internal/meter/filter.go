package meter

import (
	"github.com/cilium/ebpf"
	"golang.org/x/net/bpf"

	"github.com/xdpcap/xdpcap/internal/attach"
)

// setFilter lets the programs of spec that classify packets count only those that a filter takes.
// An XDP program reads the packet itself. Tracers and the program at egress read a copy of its
// beginning.
func setFilter(spec *ebpf.CollectionSpec, program []bpf.RawInstruction) error {
	inPlace, err := attach.InPlace(program)
	if err != nil {
		return err
	}
	ofCopy, err := attach.OfCopy(program, int(protocolsHeadLimitHEAD_BYTES))
	if err != nil {
		return err
	}
	if err := attach.Set(spec, ofCopy.Constants()); err != nil {
		return err
	}
	for name, f := range map[string]attach.Filter{
		protocolsProgCountXdp:   inPlace,
		protocolsProgCountEntry: ofCopy,
		protocolsProgNoteEntry:  ofCopy,
		protocolsProgCountSent:  ofCopy,
	} {
		if err := f.Put(spec.Programs[name]); err != nil {
			return err
		}
	}
	return nil
}
