package filter

import (
	"math"
	"slices"

	"golang.org/x/net/bpf"

	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
)

// ReadsLength tells whether the program asks for the length of the packet: where it does not, wire_len may be anything.
func ReadsLength(prog []bpf.RawInstruction) bool {
	return slices.ContainsFunc(prog, func(ins bpf.RawInstruction) bool {
		class := ins.Op & cbpf.ClassMask
		return (class == cbpf.ClassLD || class == cbpf.ClassLDX) && ins.Op&cbpf.ModeMask == cbpf.ModeLEN
	})
}

// Reach is how many bytes from the beginning of a packet the program may load; math.MaxInt32 where it computes an
// offset from something other than an IP header's length.
func Reach(prog []bpf.RawInstruction) int {
	const maxHeader = 60 // 4 * (byte & 0xf)
	reach, headers, indexed := 0, true, false
	for _, ins := range prog {
		constant, index := cbpf.PacketLoad(ins)
		end := int(min(ins.K, math.MaxInt16)) + cbpf.LoadSize(ins)
		switch {
		case constant:
			reach = max(reach, end)
		case index:
			indexed = true
			reach = max(reach, end+maxHeader)
		case ins.Op == cbpf.Tax, ins.Op&cbpf.ClassMask == cbpf.ClassLDX:
			headers = false
		}
	}
	if indexed && !headers {
		return math.MaxInt32
	}
	return reach
}
