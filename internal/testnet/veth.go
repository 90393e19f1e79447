package testnet

import (
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// WithVeth makes a veth pair in a namespace of its own, and runs f there with the end veth0, which
// has one receive queue. The other end, peer0, sends by this many queues.
func WithVeth(t *testing.T, peerQueues int, f func(ifi xdp.Interface) error) {
	t.Helper()
	RequireRoot(t)
	Must(t, MustNamespace(t).Do(func() error {
		a := netlink.NewLinkAttrs()
		a.Name, a.NumRxQueues, a.NumTxQueues = "veth0", 1, 1
		Must(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: a, PeerName: "peer0", PeerNumTxQueues: uint32(peerQueues), PeerNumRxQueues: 1}))
		for _, name := range []string{"veth0", "peer0"} {
			l, err := netlink.LinkByName(name)
			Must(t, err)
			Must(t, netlink.LinkSetUp(l))
		}
		ifi, err := xdp.EthernetInterface("veth0")
		Must(t, err)
		return f(ifi)
	}))
}

// MustPassing loads an XDP program that passes every packet, until the test has ended.
func MustPassing(t *testing.T, name string) *ebpf.Program {
	t.Helper()
	RequireRoot(t)
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: name, Type: ebpf.XDP, License: "Dual BSD/GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, int32(xdp.Pass)), asm.Return()},
	})
	return opened(t, "program", prog, err)
}
