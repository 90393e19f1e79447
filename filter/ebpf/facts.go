package ebpf

import (
	"fmt"

	"golang.org/x/net/bpf"

	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
)

// facts are the results of the analysis for a classic instruction.
type facts struct {
	reached bool
	// need is the length of the shortest packet that can still match from here. A shorter packet is
	// rejected on every path, so it is rejected here: a filter has no effect other than its result.
	need uint32
	// have is the packet length that every path to this instruction has checked.
	have uint32
	// guard is the packet length that this instruction's load must check first; 0 if have is
	// enough.
	guard uint32
}

// never is the need of an instruction from which no packet can match.
const never = 1 << 30

// Loads at offsets between these two are the kernel's extensions for sockets. They read relative to
// a header, or read data that is not in the packet.
const (
	ancillaryFirst = 0xffe00000 // SKF_LL_OFF
	ancillaryLast  = 0xfffff040 // SKF_AD_OFF + SKF_AD_MAX
)

// beyond reports whether a load cannot succeed, because it reads bytes that no program can reach.
func (t *translator) beyond(ins bpf.RawInstruction) bool {
	constant, indexed := cbpf.PacketLoad(ins)
	return (constant || indexed) && ins.K > t.packet.limit()-uint32(cbpf.LoadSize(ins.Op))
}

// analyse computes the facts. Classic jumps go forward only, so one pass in each direction is
// enough: from the end for need, from the start for have.
func (t *translator) analyse() error {
	t.facts = make([]facts, len(t.prog)+1)
	for i := len(t.prog) - 1; i >= 0; i-- {
		t.facts[i].need = t.need(i)
		t.facts[i].have = never
	}
	t.reach(0, 0)
	for i, ins := range t.prog {
		f := &t.facts[i]
		if !f.reached {
			continue
		}
		constant, indexed := cbpf.PacketLoad(ins)
		if (constant || indexed) && ins.K >= ancillaryFirst && ins.K <= ancillaryLast {
			return fmt.Errorf("instruction %d: loads data that only sockets have (offset %#x); XDP sees only the packet", i, ins.K)
		}
		have := f.have
		if constant {
			if end := ins.K + uint32(cbpf.LoadSize(ins.Op)); end > have {
				if f.guard = end; f.need < never {
					f.guard = max(end, f.need)
				}
				have = f.guard
			}
		}
		switch {
		case t.beyond(ins), ins.Op&cbpf.ClassMask == cbpf.ClassRET:
		case ins.Op == cbpf.Ja:
			t.reach(i+1+int(ins.K), have)
		case ins.Op&cbpf.ClassMask == cbpf.ClassJMP:
			t.reach(i+1+int(ins.Jt), have)
			t.reach(i+1+int(ins.Jf), have)
		default:
			t.reach(i+1, have)
		}
	}
	return nil
}

// reach records that a path with have bytes checked leads to instruction i.
func (t *translator) reach(i int, have uint32) {
	t.facts[i].reached = true
	t.facts[i].have = min(t.facts[i].have, have)
}

// need computes facts.need of instruction i from the instructions after it.
func (t *translator) need(i int) uint32 {
	ins := t.prog[i]
	constant, _ := cbpf.PacketLoad(ins)
	switch {
	case ins.Op == cbpf.RetK && ins.K == 0, t.beyond(ins):
		return never
	case ins.Op&cbpf.ClassMask == cbpf.ClassRET:
		return 0
	case ins.Op == cbpf.Ja:
		return t.facts[i+1+int(ins.K)].need
	case ins.Op&cbpf.ClassMask == cbpf.ClassJMP:
		return min(t.facts[i+1+int(ins.Jt)].need, t.facts[i+1+int(ins.Jf)].need)
	case constant:
		return max(ins.K+uint32(cbpf.LoadSize(ins.Op)), t.facts[i+1].need)
	}
	return t.facts[i+1].need
}
