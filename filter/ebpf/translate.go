// Package ebpf translates classic BPF programs to eBPF functions, and puts them into XDP and
// tracing programs before these are loaded.
//
//	prog, err := filter.CompileRaw("tcp port 443 and not host 192.0.2.1", filter.Options{})
//	body, err := ebpf.Translate(prog)
//	err = ebpf.Inline(spec.Programs["xdp"], "filter", body)
//
// The passes of a translation: filter.Check, analyse (facts.go: which packet lengths are checked
// where), the code of each instruction (instruction.go; packet.go and buffer.go load the packet's
// bytes), and link, which fills the jumps' offsets in.
//
// An XDP program cannot load bytes from offset 65535 on, nor bytes after the first fragment. Such a
// load is "no match", like a load beyond the end of the packet.
package ebpf

import (
	"fmt"
	"math"

	"github.com/cilium/ebpf/asm"
	"golang.org/x/net/bpf"

	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
)

// Registers of the translated program. Those that a call overwrites are enough, because only
// look-ups in sets call a function.
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
// It can be a global function, which the verifier checks separately, or a static one. wire_len is
// the packet length for the classic program, with all fragments; the bytes are read between
// ctx->data and ctx->data_end. The function returns the classic program's return value: 0
// is "no match". A load beyond the end of the packet, or a division by zero, returns 0. All
// registers and scratch words are 0 at the start. The code needs Linux 5.3. It has relocations only
// for sets: a look-up refers to a map by its MapName. That is a hash map or, for Networks, a LPM
// trie, whose keys are in network byte order.
//
// It is an error if Check refuses the program, or if the program loads data that only sockets have
// (SKF_AD_*: VLAN tag, interface, mark).
func Translate(prog *filter.Program) (asm.Instructions, error) {
	return translate(prog, directAccess{})
}

// translate runs the passes. packet emits the loads of the packet's bytes.
func translate(p *filter.Program, packet packet) (asm.Instructions, error) {
	prog := p.Instructions
	if err := p.Check(); err != nil {
		return nil, fmt.Errorf("translate filter: %w", err)
	}
	t := &translator{prog: prog, sets: p.Sets, start: make([]int, len(prog)), packet: packet}
	if err := t.analyse(); err != nil {
		return nil, fmt.Errorf("translate filter: %w", err)
	}
	t.begin()
	for i := range prog {
		t.start[i] = len(t.out)
		if t.facts[i].reached {
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
	sets   []filter.NamedSet
	facts  []facts
	packet packet
	out    asm.Instructions
	start  []int // index in out of each classic instruction's code
	jumps  []jump
}

// jump is a jump whose offset is still to be filled in.
type jump struct {
	from int // index in out
	to   int // classic instruction, or reject
}

// reject is the target of jumps to the code that ends the program with "no match".
const reject = -1

// packet emits the loads of packet bytes. load and loadX get size bytes in host order into a
// register, or jump to reject.
type packet interface {
	// begin emits the setup for the loads. The arguments are in R1 to R3. R2, the length of the
	// packet, must keep its value.
	begin(t *translator)
	// load reads at a constant offset. guard is the packet length to check first; 0 = no check.
	load(t *translator, to asm.Register, offset uint32, size asm.Size, guard uint32)
	// loadX reads at offset + X into A.
	loadX(t *translator, offset uint32, size asm.Size)
	// limit is the number of a packet's bytes that can be read.
	limit() uint32
}

// emit appends instructions.
func (t *translator) emit(ins ...asm.Instruction) { t.out = append(t.out, ins...) }

// jumpTo emits a jump to a classic instruction or to reject.
func (t *translator) jumpTo(to int, ins asm.Instruction) {
	t.jumps = append(t.jumps, jump{len(t.out), to})
	t.emit(ins)
}

// jumpK returns a jump that compares a register with a constant.
func jumpK(op asm.JumpOp, class asm.Class, r asm.Register, k uint32) asm.Instruction {
	return asm.Instruction{OpCode: asm.OpCode(class).SetJumpOp(op).SetSource(asm.ImmSource), Dst: r, Constant: int64(int32(k))}
}

// jumpX returns a jump that compares two registers.
func jumpX(op asm.JumpOp, class asm.Class, r, x asm.Register) asm.Instruction {
	return asm.Instruction{OpCode: asm.OpCode(class).SetJumpOp(op).SetSource(asm.RegSource), Dst: r, Src: x}
}

// always64 returns a jump that is always taken.
func always64(offset int16) asm.Instruction {
	return asm.Instruction{OpCode: asm.OpCode(asm.JumpClass).SetJumpOp(asm.Ja), Offset: offset}
}

// begin emits the start of the program. It zeroes A, X and the scratch words that are read, because
// the verifier refuses to read uninitialized registers and stack.
func (t *translator) begin() {
	t.packet.begin(t)
	t.emit(asm.Mov.Imm32(regA, 0), asm.Mov.Imm32(regX, 0))
	for slot := range uint32(cbpf.ScratchWords) {
		for i, ins := range t.prog {
			if t.facts[i].reached && ins.K == slot && (ins.Op == cbpf.LdMem || ins.Op == cbpf.LdxMem) {
				t.emit(asm.StoreImm(asm.RFP, scratch(slot), 0, asm.Word))
				break
			}
		}
	}
}

// scratch returns the offset on the stack of a word of M[].
func scratch(slot uint32) int16 { return -4 * (int16(slot) + 1) }

// end emits the target of the jumps to reject. Without such jumps it emits no code, because the
// verifier refuses unreachable code.
func (t *translator) end() {
	for _, j := range t.jumps {
		if j.to == reject {
			t.emit(asm.Mov.Imm32(regA, 0), asm.Return())
			return
		}
	}
}

// link fills in the jumps' offsets. They have 16 bits, which is enough for the code of 4096 classic
// instructions without look-ups.
func (t *translator) link() error {
	at := make([]int, len(t.out)) // the offset of each instruction, in units of eight bytes
	for i := range t.out[1:] {
		at[i+1] = at[i] + rawSize(t.out[i:i+1])
	}
	for _, j := range t.jumps {
		to := len(t.out) - 2
		if j.to != reject {
			to = t.start[j.to]
		}
		offset := at[to] - at[j.from] - 1
		if offset > math.MaxInt16 {
			return fmt.Errorf("jump over %d instructions is too far", offset)
		}
		t.out[j.from].Offset = int16(offset)
	}
	return nil
}
