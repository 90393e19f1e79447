package filter

import (
	"math"
	"slices"

	"golang.org/x/net/bpf"

	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
)

// ReadsLength reports whether the program reads the length of the packet. If it does not, the
// translated function works with any wire_len.
func ReadsLength(prog []bpf.RawInstruction) bool {
	return slices.ContainsFunc(prog, func(ins bpf.RawInstruction) bool {
		class := ins.Op & cbpf.ClassMask
		return (class == cbpf.ClassLD || class == cbpf.ClassLDX) && ins.Op&cbpf.ModeMask == cbpf.ModeLEN
	})
}

// Reach returns the number of bytes from the start of a packet that the program may load. It is
// math.MaxInt32 if the program computes an offset from a value other than the length of an IP
// header.
func Reach(prog []bpf.RawInstruction) int {
	const maxHeader = 60 // 4 * (byte & 0xf)
	reach, isIndexed := 0, false
	onlyHeaders := true // X is always the length of an IP header
	for _, ins := range prog {
		constant, indexed := cbpf.PacketLoad(ins)
		end := int(min(ins.K, math.MaxInt16)) + cbpf.LoadSize(ins.Op)
		switch {
		case constant:
			reach = max(reach, end)
		case indexed:
			isIndexed = true
			reach = max(reach, end+maxHeader)
		case ins.Op == cbpf.Tax, ins.Op&cbpf.ClassMask == cbpf.ClassLDX:
			onlyHeaders = false
		}
	}
	if isIndexed && !onlyHeaders {
		return math.MaxInt32
	}
	return reach
}
