package cbpf

// A lookup is an instruction of ours, which no kernel takes as classic BPF: it loads bytes of the
// packet as LdAbs and LdInd do, and A becomes 1 if they are in a set, and 0 if they are not. The
// high byte of its opcode has the set's number, from 1.
const (
	// SizeAddress6 is the size of an IPv6 address. Only lookups load that many bytes at a time.
	SizeAddress6 = 0x18

	SetMask = 0xff00
	// MaxSets is how many sets a program can have.
	MaxSets = 255
)

// In is the part of an opcode that looks up in a set. Sets count from 0.
func In(set int) int { return (set + 1) << 8 }

// SetOf returns the set of a lookup. It is false for all other instructions.
func SetOf(op uint16) (set int, ok bool) { return int(op>>8) - 1, op>>8 != 0 }

// IsLookup reports whether an opcode with a set is a lookup.
func IsLookup(op uint16) bool {
	mode, size := op&ModeMask, op&SizeMask
	return op>>8 != 0 && op&ClassMask == ClassLD && (mode == ModeABS || mode == ModeIND) && size != SizeB
}
