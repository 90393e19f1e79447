package drops

import (
	"errors"
	"net"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// What the host's own firewall drops on the way out is lost at egress, at the interface that it was
// to leave through, although the packet has no device yet. So are its flows.
func TestFirewallOut(t *testing.T) {
	t.Parallel()
	const (
		sent     = 30
		ipv4     = 2 // NFPROTO_IPV4
		localOut = 3 // NF_INET_LOCAL_OUT
	)
	n := newNetwork(t)
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.Netfilter, AttachType: ebpf.AttachNetfilter, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}}) // NF_DROP
	if errors.Is(err, ebpf.ErrNotSupported) || errors.Is(err, unix.EINVAL) { // before Linux 6.4
		t.Skip(err)
	}
	n.must(err)
	t.Cleanup(func() { prog.Close() })
	n.must(n.Rx.Do(func() error {
		l, err := link.AttachNetfilter(link.NetfilterOptions{Program: prog, ProtocolFamily: ipv4, Hook: localOut})
		if err == nil {
			t.Cleanup(func() { l.Close() })
		}
		return err
	}))
	m := n.openMeter()
	n.must(n.Rx.Do(func() error {
		conn, err := net.ListenUDP("udp4", nil)
		if err != nil {
			return err
		}
		defer conn.Close()
		for range sent {
			conn.WriteTo([]byte("out"), &net.UDPAddr{IP: testnet.TxEndpoint.IPv4, Port: 7}) // EPERM
		}
		return nil
	}))
	c := n.counts(m)
	if found := n.losses(m); found["egress NETFILTER_DROP"] != sent || found["stack NETFILTER_DROP"] != 0 {
		t.Errorf("%v, want %d at egress", found, sent)
	}
	for name, packets := range n.flows(c) {
		t.Log(name, packets)
	}
}
