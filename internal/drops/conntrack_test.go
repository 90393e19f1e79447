package drops

import (
	"os/exec"
	"testing"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// If NAT has no free port, conntrack says so: the kernel's reason is that of a rule.
func TestConntrack(t *testing.T) {
	t.Parallel()
	const ports, connections = 4, 28
	n := newNetwork(t)
	n.forward(60_000_000)
	n.must(n.Rx.Do(func() error {
		out, err := exec.Command("iptables", "-t", "nat", "-A", "POSTROUTING", "-o", "out0", "-p", "udp", "-j", "SNAT", "--to-source", "198.51.100.1:5000-5003").CombinedOutput()
		if err != nil {
			t.Skipf("needs iptables with NAT: %v: %s", err, out)
		}
		return nil
	}))
	m := n.openMeterOf(Options{Interface: n.RxName, Check: true})
	path := testnet.TxToRx()
	path.Dst.IPv4 = beyond
	for port := range uint16(connections) {
		n.must(n.sender.Send(path.UDP(6000+port, 9, make([]byte, 100))))
	}
	c := n.counts(m)
	lost := uint64(0)
	for l, tally := range c.Losses {
		if l.Reason == "NETFILTER_DROP" {
			lost += tally.Packets
		}
	}
	const refused = connections - ports
	if want := (Conntrack{Drop: refused, InsertFailed: refused}); c.Conntrack != want || lost != refused {
		t.Errorf("%+v, want %+v; %d packets are lost", c.Conntrack, want, lost)
	}
	if r := c.Check; len(r.Unexplained)+len(r.Unconfirmed)+len(r.Unchecked) > 0 {
		t.Errorf("%+v", r)
	}
}
