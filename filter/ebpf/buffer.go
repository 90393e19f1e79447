package ebpf

import (
	"fmt"
	"math"

	"github.com/cilium/ebpf/asm"

	"github.com/xdpcap/xdpcap/filter"
)

// bufferAccess loads from a copy of the packet's beginning, for tracing programs: the verifier does
// not let them read the packet itself.
type bufferAccess struct{ size uint32 }

// TranslateBuffer is Translate for a body that gets a copy of the packet's beginning:
//
//	__noinline int filter(struct { __u8 bytes[size]; } *head, __u32 wire_len, __u32 length)
//
// length is the number of bytes that belong to the packet. A load beyond them is "no match";
// filter.Reach returns how many bytes a program may load.
func TranslateBuffer(prog *filter.Program, size int) (asm.Instructions, error) {
	if size < 1 || size > math.MaxInt16 {
		return nil, fmt.Errorf("translate filter: a buffer of %d bytes: must be 1 to %d", size, math.MaxInt16)
	}
	return translate(prog, bufferAccess{uint32(size)})
}

func (b bufferAccess) limit() uint32 { return b.size }

func (bufferAccess) begin(t *translator) {
	// The verifier checks a global function for every possible caller, even without a buffer.
	t.jumpTo(reject, jumpK(asm.JEq, asm.JumpClass, asm.R1, 0))
	t.emit(asm.Mov.Reg32(regEnd, asm.R3), asm.Mov.Reg(regData, asm.R1))
}

func (bufferAccess) load(t *translator, to asm.Register, offset uint32, size asm.Size, guard uint32) {
	if guard > 0 {
		t.jumpTo(reject, jumpK(asm.JLT, asm.JumpClass, regEnd, guard))
	}
	t.emit(asm.LoadMem(to, regData, int16(offset), size))
	toHost(t, to, size)
}

func (b bufferAccess) loadX(t *translator, offset uint32, size asm.Size) {
	end := offset + uint32(size.Sizeof())
	t.emit(asm.Mov.Reg(regSpare, regX))
	// The first comparison proves to the verifier that the offset is inside the buffer. The second
	// checks the end of the packet.
	t.jumpTo(reject, jumpK(asm.JGT, asm.JumpClass, regSpare, b.size-end))
	t.emit(asm.Add.Imm(regSpare, int32(end)))
	t.jumpTo(reject, jumpX(asm.JGT, asm.JumpClass, regSpare, regEnd))
	t.emit(asm.Add.Reg(regSpare, regData), asm.LoadMem(regA, regSpare, -int16(size.Sizeof()), size))
	toHost(t, regA, size)
}
