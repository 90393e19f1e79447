package ebpf

import (
	"github.com/cilium/ebpf/asm"
	"golang.org/x/net/bpf"

	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
)

// MapName returns the name of a set's map for one kind and size of keys. Keys have 4 bytes for IPv4
// addresses, 16 for IPv6 addresses, and 2 for ports.
func MapName(set string, kind filter.SetKind, keyBytes int) string {
	family := map[int]string{4: "4.", 16: "6."}[keyBytes]
	return map[filter.SetKind]string{filter.Addresses: "set", filter.Networks: "net", filter.Ports: "port."}[kind] + family + set
}

// The key of a look-up is on the stack, below the scratch words: an address or a port. A LPM trie
// also reads the number of its bits, right before it.
const (
	keyAt    = -(4*cbpf.ScratchWords + 16)
	prefixAt = keyAt - 4
)

// lookup emits the code of a lookup. The call overwrites R1 to R5, so their values are saved in R6
// to R9.
func (t *translator) lookup(i int, ins bpf.RawInstruction) {
	set, _ := cbpf.SetOf(ins.Op)
	size := cbpf.LoadSize(ins.Op)
	width := min(size, 4)
	part := asmSize(width)
	for at := 0; at < size; at += width {
		guard := t.facts[i].guard
		if at > 0 {
			guard = 0
		}
		if ins.Op&cbpf.ModeMask == cbpf.ModeIND {
			t.packet.loadX(t, ins.K+uint32(at), part)
		} else {
			t.packet.load(t, regA, ins.K+uint32(at), part, guard)
		}
		toHost(t, regA, part) // keys are in network byte order
		t.emit(asm.StoreMem(asm.RFP, int16(keyAt+at), regA, part))
	}
	t.emit(asm.StoreImm(asm.RFP, prefixAt, int64(8*size), asm.Word))
	kept := []struct{ register, in asm.Register }{{regX, asm.R6}, {regLen, asm.R7}, {regData, asm.R8}, {regEnd, asm.R9}}
	for _, k := range kept {
		t.emit(asm.Mov.Reg(k.in, k.register))
	}
	key := int32(keyAt)
	if t.sets[set].Kind == filter.Networks {
		key = prefixAt
	}
	t.emit(
		asm.LoadMapPtr(asm.R1, 0).WithReference(MapName(t.sets[set].Name, t.sets[set].Kind, size)),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, key),
		asm.FnMapLookupElem.Call(),
	)
	for _, k := range kept {
		t.emit(asm.Mov.Reg(k.register, k.in))
	}
	found := jumpK(asm.JEq, asm.JumpClass, regA, 0)
	found.Offset = 1
	t.emit(found, asm.Mov.Imm32(regA, 1))
}
