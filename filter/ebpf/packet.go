package ebpf

import "github.com/cilium/ebpf/asm"

// directAccess loads from the packet itself, through the pointers in struct xdp_md. Each load at an
// offset plus X computes its own pointer: a pointer that serves several loads would differ between
// the paths that join before a load.
type directAccess struct{}

// maxPacketOffset is the verifier's MAX_PACKET_OFF, the largest offset that a program can read.
const maxPacketOffset = 0xffff

func (directAccess) limit() uint32 { return maxPacketOffset }

func (directAccess) begin(t *translator) {
	// These are 32-bit loads; the kernel turns them into loads of 64-bit pointers.
	t.emit(asm.LoadMem(regData, asm.R1, 0, asm.Word), asm.LoadMem(regEnd, asm.R1, 4, asm.Word))
}

func (directAccess) load(t *translator, to asm.Register, offset uint32, size asm.Size, guard uint32) {
	if guard > 0 {
		t.emit(asm.Mov.Reg(regSpare, regData), asm.Add.Imm(regSpare, int32(guard)))
		t.jumpTo(reject, jumpX(asm.JGT, asm.JumpClass, regSpare, regEnd))
	}
	if offset <= 0x7fff {
		t.emit(asm.LoadMem(to, regData, int16(offset), size))
	} else { // the instruction's own offset has 16 bits and a sign
		t.emit(asm.Mov.Reg(regSpare, regData), asm.Add.Imm(regSpare, int32(offset)), asm.LoadMem(to, regSpare, 0, size))
	}
	toHost(t, to, size)
}

func (directAccess) loadX(t *translator, offset uint32, size asm.Size) {
	end := offset + uint32(size.Sizeof())
	t.emit(asm.Mov.Reg(regSpare, regX))
	// The verifier must see that X + end, which is computed below, is at most maxPacketOffset. X
	// has 32 bits, so the sum of 64 bits cannot wrap.
	t.jumpTo(reject, jumpK(asm.JGT, asm.JumpClass, regSpare, maxPacketOffset-end))
	t.emit(asm.Add.Reg(regSpare, regData), asm.Add.Imm(regSpare, int32(end)))
	t.jumpTo(reject, jumpX(asm.JGT, asm.JumpClass, regSpare, regEnd))
	t.emit(asm.LoadMem(regA, regSpare, -int16(size.Sizeof()), size))
	toHost(t, regA, size)
}

// toHost emits the change from network to host byte order.
func toHost(t *translator, r asm.Register, size asm.Size) {
	if size != asm.Byte {
		t.emit(asm.HostTo(asm.BE, r, size))
	}
}
