package cbpf

// Classic BPF opcodes, as in Linux's uapi/linux/bpf_common.h and filter.h: first the fields that
// make up an opcode, then the opcodes that have no variants.
const (
	ClassMask = 0x07
	ClassLD   = 0x00
	ClassLDX  = 0x01
	ClassST   = 0x02
	ClassSTX  = 0x03
	ClassALU  = 0x04
	ClassJMP  = 0x05
	ClassRET  = 0x06
	ClassMISC = 0x07

	SizeMask = 0x18
	SizeW    = 0x00
	SizeH    = 0x08
	SizeB    = 0x10

	ModeMask = 0xe0
	ModeIMM  = 0x00
	ModeABS  = 0x20
	ModeIND  = 0x40
	ModeMEM  = 0x60
	ModeLEN  = 0x80
	ModeMSH  = 0xa0

	OpMask = 0xf0
	OpAdd  = 0x00
	OpSub  = 0x10
	OpMul  = 0x20
	OpDiv  = 0x30
	OpOr   = 0x40
	OpAnd  = 0x50
	OpLsh  = 0x60
	OpRsh  = 0x70
	OpNeg  = 0x80
	OpMod  = 0x90
	OpXor  = 0xa0

	OpJa   = 0x00
	OpJeq  = 0x10
	OpJgt  = 0x20
	OpJge  = 0x30
	OpJset = 0x40

	SrcMask = 0x08
	SrcK    = 0x00
	SrcX    = 0x08

	RvalA = 0x10
)

// Whole opcodes. LdAbs and LdInd still need a size. Arithmetic and jumps take K as their operand,
// or X where the name ends with X.
const (
	LdImm = ClassLD | ModeIMM
	LdAbs = ClassLD | ModeABS
	LdInd = ClassLD | ModeIND
	LdMem = ClassLD | ModeMEM
	LdLen = ClassLD | ModeLEN

	LdxImm = ClassLDX | ModeIMM
	LdxMem = ClassLDX | ModeMEM
	LdxLen = ClassLDX | ModeLEN
	LdxMsh = ClassLDX | ModeMSH | SizeB

	St  = ClassST
	Stx = ClassSTX

	Add  = ClassALU | OpAdd
	AddX = ClassALU | OpAdd | SrcX
	Sub  = ClassALU | OpSub
	SubX = ClassALU | OpSub | SrcX
	And  = ClassALU | OpAnd
	Or   = ClassALU | OpOr
	Lsh  = ClassALU | OpLsh
	Neg  = ClassALU | OpNeg

	Ja   = ClassJMP | OpJa
	Jeq  = ClassJMP | OpJeq
	JeqX = ClassJMP | OpJeq | SrcX
	Jgt  = ClassJMP | OpJgt
	Jge  = ClassJMP | OpJge
	JgeX = ClassJMP | OpJge | SrcX
	Jset = ClassJMP | OpJset

	Tax = ClassMISC
	Txa = ClassMISC | 0x80

	RetK = ClassRET
	RetA = ClassRET | RvalA
)

// ScratchWords is the number of words in M[].
const ScratchWords = 16

// MaxInstructions is the kernel's limit on a classic program, BPF_MAXINSNS.
const MaxInstructions = 4096

// A lookup is an instruction of ours, which no kernel takes as classic BPF: it loads bytes of the
// packet as LdAbs and LdInd do, and A becomes 1 if they are in a set, and 0 if they are not. The
// high byte of its opcode has the set's number, from 1.
const (
	// SizeAddress6 means 16 bytes, an IPv6 address, by a value of SizeMask that classic BPF does
	// not use. Only lookups load that many bytes at a time.
	SizeAddress6 = 0x18

	SetMask = 0xff00
	// MaxSets is how many sets a program can have.
	MaxSets = 255
)

// SetBits is the part of an opcode that looks up in a set. Sets count from 0.
func SetBits(set int) int { return (set + 1) << 8 }

// SetOf returns the set that an opcode has in its high byte, and false if it has none. It does not
// check the rest of the opcode, as IsLookup does.
func SetOf(op uint16) (set int, ok bool) { return int(op>>8) - 1, op>>8 != 0 }

// IsLookup reports whether an opcode is a lookup: a load into A with a set. Sets have no elements
// of one byte.
func IsLookup(op uint16) bool {
	mode, size := op&ModeMask, op&SizeMask
	return op>>8 != 0 && op&ClassMask == ClassLD && (mode == ModeABS || mode == ModeIND) && size != SizeB
}
