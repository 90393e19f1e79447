// Package ebpf translates classic BPF programs to eBPF functions, and puts them into XDP and tracing
// programs before these are loaded.
//
//	prog, err := filter.CompileRaw("tcp port 443 and not host 192.0.2.1", filter.Options{})
//	body, err := ebpf.Translate(prog)
//	err = ebpf.Replace(spec.Programs["xdp"], "filter", body)
//
// The passes of a translation: filter.Check, analyse (facts.go: which packet lengths are checked
// where), the code of each instruction (instruction.go; packet.go and buffer.go load the packet's
// bytes), and link, which fills the jumps' offsets in.
//
// Bytes 65535 and up of a packet, and those behind its first fragment, cannot be loaded at XDP. Such a
// load is "no match", as it is behind the end of the packet.
package ebpf

import (
	"fmt"
	"math"

	"github.com/cilium/ebpf/asm"
	"golang.org/x/net/bpf"

	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
)

// Registers of the translated program. It calls nothing, so it needs none that a callee would have to save.
const (
	regA     = asm.R0 // the return value as well
	regX     = asm.R1 // the context at the start
	regLen   = asm.R2
	regData  = asm.R3
	regEnd   = asm.R4
	regSpare = asm.R5
)

// Translate turns a classic program into the eBPF body of
//
//	__noinline int filter(struct xdp_md *ctx, __u32 wire_len)
//
// a global function, which the verifier checks on its own, or a static one. wire_len is what the classic program sees as the
// length of the packet, all fragments included; the bytes come from between ctx->data and ctx->data_end. The function returns
// the classic program's return value: 0 is "no match". A load behind the end of the packet, or a division by zero, ends it
// with 0. All registers and scratch words are 0 at the start. The code has no relocations and needs Linux 5.3.
//
// A program that Check refuses is an error, as are loads of what only sockets have (SKF_AD_*: VLAN tag, interface, mark).
func Translate(prog []bpf.RawInstruction) (asm.Instructions, error) {
	return translate(prog, directAccess{})
}

func translate(prog []bpf.RawInstruction, packet packet) (asm.Instructions, error) {
	if err := filter.Check(prog); err != nil {
		return nil, fmt.Errorf("translate filter: %w", err)
	}
	t := &translator{prog: prog, start: make([]int, len(prog)), packet: packet}
	if err := t.analyse(); err != nil {
		return nil, fmt.Errorf("translate filter: %w", err)
	}
	t.begin()
	for i := range prog {
		t.start[i] = len(t.out)
		if t.flow[i].reached {
			t.instruction(i)
		}
	}
	t.end()
	if err := t.link(); err != nil {
		return nil, fmt.Errorf("translate filter: %w", err)
	}
	return t.out, nil
}

// translator is the state of one translation.
type translator struct {
	prog   []bpf.RawInstruction
	flow   []facts
	packet packet
	out    asm.Instructions
	start  []int // where each classic instruction's code begins
	jumps  []jump
}

// jump is an offset to be filled in.
type jump struct {
	from int // index in out
	to   int // classic instruction, or reject
}

const reject = -1

// packet emits the loads of packet bytes. Both get size bytes in host order into a register, or jump to reject.
type packet interface {
	// begin loads what the others need. The context is in R1, the length of the packet in R2, which must stay there.
	begin(t *translator)
	// load reads at a constant offset. guard is how many bytes of the packet have to be checked for first, 0 for none.
	load(t *translator, to asm.Register, offset uint32, size asm.Size, guard uint32)
	// loadX reads at offset + X into A.
	loadX(t *translator, offset uint32, size asm.Size)
	// limit is how many bytes can be reached.
	limit() uint32
}

func (t *translator) emit(ins ...asm.Instruction) { t.out = append(t.out, ins...) }

// jumpTo emits a jump to a classic instruction or to reject.
func (t *translator) jumpTo(to int, ins asm.Instruction) {
	t.jumps = append(t.jumps, jump{len(t.out), to})
	t.emit(ins)
}

func jumpK(op asm.JumpOp, class asm.Class, r asm.Register, k uint32) asm.Instruction {
	return asm.Instruction{OpCode: asm.OpCode(class).SetJumpOp(op).SetSource(asm.ImmSource), Dst: r, Constant: int64(int32(k))}
}

func jumpX(op asm.JumpOp, class asm.Class, r, x asm.Register) asm.Instruction {
	return asm.Instruction{OpCode: asm.OpCode(class).SetJumpOp(op).SetSource(asm.RegSource), Dst: r, Src: x}
}

func always64(offset int16) asm.Instruction {
	return asm.Instruction{OpCode: asm.OpCode(asm.JumpClass).SetJumpOp(asm.Ja), Offset: offset}
}

// begin zeroes what the program can see. The verifier wants everything written before it is read.
func (t *translator) begin() {
	t.packet.begin(t)
	t.emit(asm.Mov.Imm32(regA, 0), asm.Mov.Imm32(regX, 0))
	for slot := range uint32(cbpf.ScratchWords) {
		for i, ins := range t.prog {
			if t.flow[i].reached && ins.K == slot && (ins.Op == cbpf.LdMem || ins.Op == cbpf.LdxMem) {
				t.emit(asm.StoreImm(asm.RFP, scratch(slot), 0, asm.Word))
				break
			}
		}
	}
}

// scratch is where a word of M[] is on the stack.
func scratch(slot uint32) int16 { return -4 * (int16(slot) + 1) }

// end emits the exit for "no match", which the verifier refuses if nothing jumps there.
func (t *translator) end() {
	for _, j := range t.jumps {
		if j.to == reject {
			t.emit(asm.Mov.Imm32(regA, 0), asm.Return())
			return
		}
	}
}

// link fills the jumps' offsets in. They have 16 bits, which 4096 classic instructions do not exhaust.
func (t *translator) link() error {
	for _, j := range t.jumps {
		to := len(t.out) - 2
		if j.to != reject {
			to = t.start[j.to]
		}
		offset := to - j.from - 1
		if offset > math.MaxInt16 {
			return fmt.Errorf("jump over %d instructions is too far", offset)
		}
		t.out[j.from].Offset = int16(offset)
	}
	return nil
}
