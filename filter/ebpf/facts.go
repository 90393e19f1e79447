package ebpf

import (
	"fmt"

	"golang.org/x/net/bpf"

	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
)

// facts are what is known at a classic instruction.
type facts struct {
	reached bool
	// need is how long a packet must be that matches on any way from here; never is longer than any packet. A shorter one can be
	// rejected at once: that it would be rejected later makes no difference, for a filter does nothing else.
	need uint32
	have uint32 // packet bytes checked for on every way to here
	// guard is what a load has to check for, 0 if enough has been checked already.
	guard uint32
}

const never = 1 << 30

// Loads at offsets from here on are the kernel's extensions, relative to headers or not in the packet at all.
const (
	ancillaryFirst = 0xffe00000 // SKF_LL_OFF
	ancillaryLast  = 0xfffff040 // SKF_AD_OFF + SKF_AD_MAX
)

// beyond tells whether a load cannot succeed.
func (t *translator) beyond(ins bpf.RawInstruction) bool {
	constant, indexed := cbpf.PacketLoad(ins)
	return (constant || indexed) && ins.K > t.packet.limit()-uint32(cbpf.LoadSize(ins))
}

// analyse fills in flow. Classic jumps go forward only, so one pass in each direction is enough.
func (t *translator) analyse() error {
	t.flow = make([]facts, len(t.prog)+1)
	for i := len(t.prog) - 1; i >= 0; i-- {
		t.flow[i].need = t.need(i)
		t.flow[i].have = never
	}
	t.reach(0, 0)
	for i, ins := range t.prog {
		f := &t.flow[i]
		if !f.reached {
			continue
		}
		constant, indexed := cbpf.PacketLoad(ins)
		if (constant || indexed) && ins.K >= ancillaryFirst && ins.K <= ancillaryLast {
			return fmt.Errorf("instruction %d: loads what only sockets have (offset %#x); XDP sees the packet alone", i, ins.K)
		}
		have := f.have
		if constant {
			if end := ins.K + uint32(cbpf.LoadSize(ins)); end > have {
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

func (t *translator) reach(i int, have uint32) {
	t.flow[i].reached = true
	t.flow[i].have = min(t.flow[i].have, have)
}

// need computes facts.need from those of the instructions behind i.
func (t *translator) need(i int) uint32 {
	ins := t.prog[i]
	constant, _ := cbpf.PacketLoad(ins)
	switch {
	case ins.Op == cbpf.RetK && ins.K == 0, t.beyond(ins):
		return never
	case ins.Op&cbpf.ClassMask == cbpf.ClassRET:
		return 0
	case ins.Op == cbpf.Ja:
		return t.flow[i+1+int(ins.K)].need
	case ins.Op&cbpf.ClassMask == cbpf.ClassJMP:
		return min(t.flow[i+1+int(ins.Jt)].need, t.flow[i+1+int(ins.Jf)].need)
	case constant:
		return max(ins.K+uint32(cbpf.LoadSize(ins)), t.flow[i+1].need)
	}
	return t.flow[i+1].need
}
