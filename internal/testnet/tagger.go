package testnet

import (
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
)

// TaggedHash is the hash that MustTagBeside gives to packets.
const TaggedHash = 0xfeedc0de

// MustTagBeside gives everything that the sending side sends a VLAN tag and a hash beside the
// packet, until the test ends: a card that removes tags hands packets up in this form. The protocol
// is 0x8100 or 0x88a8. It needs tcx, Linux 6.6.
func MustTagBeside(tb TB, p *Pair, protocol, tag uint16) {
	tb.Helper()
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "push_tag",
		Type: ebpf.SchedCLS,
		Instructions: asm.Instructions{
			asm.Mov.Reg(asm.R6, asm.R1),
			asm.LoadImm(asm.R2, TaggedHash, asm.DWord),
			asm.FnSetHash.Call(),
			asm.Mov.Reg(asm.R1, asm.R6),
			asm.Mov.Imm(asm.R2, int32(protocol>>8|protocol&0xff<<8)), // in network order
			asm.Mov.Imm(asm.R3, int32(tag)),
			asm.FnSkbVlanPush.Call(),
			asm.Mov.Imm(asm.R0, -1), // TCX_NEXT
			asm.Return(),
		},
		License: "GPL",
	})
	if err != nil {
		tb.Fatalf("load a program that tags packets: %v", err)
	}
	defer prog.Close()
	var l link.Link
	err = p.Tx.Do(func() (err error) {
		l, err = link.AttachTCX(link.TCXOptions{Interface: p.TxIndex, Program: prog, Attach: ebpf.AttachTCXEgress})
		return err
	})
	if err != nil {
		tb.Fatalf("attach a program that tags packets to %s: %v", p.TxName, err)
	}
	closeAfter(tb, "tagging", l.Close)
}
