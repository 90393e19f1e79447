package filter

// Classic BPF opcodes, as in Linux's uapi/linux/bpf_common.h and filter.h.
const (
	classMask = 0x07
	classLD   = 0x00
	classLDX  = 0x01
	classST   = 0x02
	classSTX  = 0x03
	classALU  = 0x04
	classJMP  = 0x05
	classRET  = 0x06
	classMISC = 0x07

	sizeMask = 0x18
	sizeW    = 0x00
	sizeH    = 0x08
	sizeB    = 0x10

	modeMask = 0xe0
	modeIMM  = 0x00
	modeABS  = 0x20
	modeIND  = 0x40
	modeMEM  = 0x60
	modeLEN  = 0x80
	modeMSH  = 0xa0

	opMask = 0xf0
	opAdd  = 0x00
	opSub  = 0x10
	opMul  = 0x20
	opDiv  = 0x30
	opOr   = 0x40
	opAnd  = 0x50
	opLsh  = 0x60
	opRsh  = 0x70
	opNeg  = 0x80
	opMod  = 0x90
	opXor  = 0xa0

	opJa   = 0x00
	opJeq  = 0x10
	opJgt  = 0x20
	opJge  = 0x30
	opJset = 0x40

	srcMask = 0x08
	srcK    = 0x00
	srcX    = 0x08

	rvalMask = 0x18
	rvalA    = 0x10

	insLdImm  = classLD | modeIMM
	insLdMem  = classLD | modeMEM
	insLdLen  = classLD | modeLEN
	insLdxImm = classLDX | modeIMM
	insLdxMem = classLDX | modeMEM
	insLdxMsh = classLDX | modeMSH | sizeB
	insNeg    = classALU | opNeg
	insTax    = classMISC
	insTxa    = classMISC | 0x80
	insRetK   = classRET
	insJa     = classJMP | opJa

	scratchSlots = 16 // words of M[]
)

// MaxInstructions is the kernel's limit on a classic program, BPF_MAXINSNS.
const MaxInstructions = 4096
