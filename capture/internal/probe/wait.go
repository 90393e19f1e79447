package probe

import (
	"slices"
	"unsafe"

	"github.com/cilium/ebpf"

	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/capture/internal/ring"
	"github.com/xdpcap/xdpcap/capture/packet"
)

// AwaitsExits reports whether packets at the entry of a program are chosen by what is known only at
// its exit, so that their records wait until then.
func (o *Options) AwaitsExits() bool {
	return slices.Contains(o.Hooks, packet.Entry) && (len(o.Verdicts) > 0 || o.SlowerThan > 0 || o.SampleVerdicts != nil)
}

// imageRoom is how many bytes of a packet an entry's record has while it waits; 0 = none waits.
func (o *Options) imageRoom() uint32 {
	if !o.AwaitsExits() {
		return 0
	}
	return uint32(min(o.SnapLen, int(kernel.SamplerWaitLimitMAX_IMAGE)))
}

// fitImages sets the size of the map in which the records of entries wait.
func (o *Options) fitImages(m *ebpf.MapSpec) {
	if room := o.imageRoom(); room > 0 {
		m.MaxEntries = uint32(ring.PresentCPUs()) * uint32(kernel.SamplerWaitLimitMAX_WAITS)
		m.ValueSize = uint32(unsafe.Sizeof(ring.Record{})) + room
	}
}
