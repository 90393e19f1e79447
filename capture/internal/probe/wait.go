package probe

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/cilium/ebpf"

	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/capture/internal/ring"
	"github.com/xdpcap/xdpcap/capture/packet"
)

// AwaitsExits reports whether packets of a traced program wait for their exits: either entries are
// recorded and chosen by facts of the exit, or packets are chosen by the program's reason.
func (o *Options) AwaitsExits() bool {
	choosesByExit := len(o.Verdicts)+len(o.TCVerdicts) > 0 || o.SlowerThan > 0 || o.SampleVerdicts != nil
	return o.choosesReasons() || o.recordsEntries() && choosesByExit
}

// choosesReasons reports whether packets are chosen by the reasons that a traced program gives. In
// a capture of StackDrops, Reasons are those of the kernel.
func (o *Options) choosesReasons() bool {
	return len(o.Hooks) > 0 && o.ReasonMap != "" && len(o.Reasons) > 0 && !o.StackDrops
}

func (o *Options) recordsEntries() bool { return slices.Contains(o.Hooks, packet.Entry) }

// imageRoom is how many bytes of a packet are kept with an entry's record while it waits. The
// record with these bytes is the image of the packet as it entered. 0 = no record waits.
func (o *Options) imageRoom() uint32 {
	if !o.AwaitsExits() || !o.recordsEntries() {
		return 0
	}
	return uint32(min(o.SnapLen, int(kernel.SamplerWaitLimitMAX_IMAGE)))
}

// fitImages sets the size of the map in which the images of packets wait.
func (o *Options) fitImages(m *ebpf.MapSpec) {
	if room := o.imageRoom(); room > 0 {
		m.MaxEntries = uint32(ring.PresentCPUs()) * uint32(kernel.SamplerWaitLimitMAX_WAITS)
		m.ValueSize = uint32(unsafe.Sizeof(ring.Record{})) + room
	}
}

// reasonConstants are the constants that choose among reasons, at most maxReasons.
func reasonConstants[R ~uint32](reasons []R) Constants {
	var list [maxReasons]uint32
	for i, r := range reasons {
		list[i] = uint32(r)
	}
	return Constants{kernel.SamplerVarReasons: list, kernel.SamplerVarReasonCount: uint32(len(reasons))}
}

// checkReasonCount refuses more reasons than the programs can compare.
func checkReasonCount(reasons int) error {
	if reasons > maxReasons {
		return fmt.Errorf("%d reasons to keep: must be at most %d", reasons, maxReasons)
	}
	return nil
}
