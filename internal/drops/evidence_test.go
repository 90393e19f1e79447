package drops

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// run runs a command on the receiving side.
func (n *network) run(command ...string) {
	n.Helper()
	testnet.Require(n, command[0])
	n.must(n.Rx.Do(func() error {
		out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
		if err != nil {
			n.Fatalf("%v: %v: %s", command, err, out)
		}
		return nil
	}))
}

// chain adds a chain of nf_tables with these rules.
func (n *network) chain(hook, policy string, rules ...string) {
	n.Helper()
	n.run("nft", fmt.Sprintf("table inet filter { chain %s { type filter hook %s priority 0; policy %s; %s; }; }", hook, hook, policy, strings.Join(rules, "; ")))
}

// sendOut sends packets of the receiving side's own.
func (n *network) sendOut(to net.IP, port uint16, packets int) {
	n.Helper()
	n.must(n.Rx.Do(func() error {
		conn, err := net.DialUDP("udp", nil, &net.UDPAddr{IP: to, Port: int(port)})
		if err != nil {
			return err
		}
		defer conn.Close()
		for range packets {
			conn.Write([]byte("lost")) // or is refused
		}
		return nil
	}))
}

// Each loss names who has caused it, with the counter that tells: the rule, the policy, the socket
// and its process, the queue, the route, the map.
func TestEvidence(t *testing.T) {
	t.Parallel()
	const sent = 20
	program := openedBy()
	for _, test := range []struct {
		name   string
		before func(*network) // counting begins
		do     func(*network)
		reason string
		want   []string
	}{
		{"rule for input", func(n *network) {
			n.chain("input", "accept", "udp dport 7 counter accept", "udp dport 9 counter drop", "udp dport 10 counter drop")
		}, func(n *network) { n.send(9, sent); n.send(10, sent/2); n.send(7, sent) },
			"NETFILTER_DROP", []string{"20 nft inet filter input, handle 3: udp dport 9 drop", "10 nft inet filter input, handle 4: udp dport 10 drop"}},
		{"rule for output", func(n *network) {
			n.chain("output", "accept", "udp dport 9 counter drop")
			n.chain("input", "accept", "udp dport 9 drop") // cannot have done it
		}, func(n *network) { n.sendOut(testnet.TxEndpoint.IPv4, 9, sent) },
			"NETFILTER_DROP", []string{"all nft inet filter output, handle 2: udp dport 9 drop"}},
		{"rule for forward", func(n *network) {
			n.forward(60_000_000)
			n.chain("forward", "accept", "udp dport 9 counter drop")
		}, func(n *network) {
			path := testnet.TxToRx()
			path.Dst.IPv4 = beyond
			for range sent {
				n.must(n.sender.Send(path.UDP(1000, 9, make([]byte, 100))))
			}
		}, "NETFILTER_DROP", []string{"all nft inet filter forward, handle 2: udp dport 9 drop"}},
		{"rule without a counter", func(n *network) { n.chain("input", "accept", "udp dport 9 drop", "udp dport 10 counter drop") },
			func(n *network) { n.send(9, sent); n.send(10, sent/2) },
			"NETFILTER_DROP", []string{"20 the only rule without a counter: nft inet filter input, handle 2: udp dport 9 drop", "10 nft inet filter input, handle 3: udp dport 10 drop"}},
		{"rules without a counter", func(n *network) { n.chain("input", "accept", "udp dport 9 drop", "udp dport 10 drop") },
			func(n *network) { n.send(9, sent) },
			"NETFILTER_DROP", []string{"all one of 2 rules without a counter: add `counter` to those of nft inet filter input"}},
		{"policy", func(n *network) { n.chain("input", "drop") }, func(n *network) { n.send(9, sent) },
			"NETFILTER_DROP", []string{"all the only rule without a counter: nft inet filter input, policy: drop"}},
		{"iptables", func(n *network) {
			n.run("iptables-legacy", "-A", "INPUT", "-p", "udp", "--dport", "9", "-j", "DROP")
			n.run("iptables-legacy", "-P", "FORWARD", "DROP")
		}, func(n *network) { n.send(9, sent) },
			"NETFILTER_DROP", []string{"all iptables filter INPUT, rule 1: -p udp --dport 9 -j DROP"}},
		{"policy of iptables", func(n *network) {
			n.forward(60_000_000)
			n.run("iptables-legacy", "-P", "FORWARD", "DROP")
		}, func(n *network) {
			path := testnet.TxToRx()
			path.Dst.IPv4 = beyond
			for range sent {
				n.must(n.sender.Send(path.UDP(1000, 9, make([]byte, 100))))
			}
		}, "NETFILTER_DROP", []string{"all iptables filter FORWARD, policy: DROP"}},
		{"iptables of nf_tables", func(n *network) { n.run("iptables-nft", "-A", "INPUT", "-p", "udp", "--dport", "9", "-j", "DROP") },
			func(n *network) { n.send(9, sent) },
			"NETFILTER_DROP", []string{"all nft ip filter INPUT, handle 2: udp dport 9 drop"}},
		{"receive buffer", nil, func(n *network) { n.send(7000, 5) }, "SOCKET_RCVBUFF", []string{"all " + program + " :7000, receive buffer 2.2 KiB"}},
		{"queue", func(n *network) { n.forward(60_000_000) }, func(n *network) {
			path := testnet.TxToRx()
			path.Dst.IPv4 = beyond
			for range sent {
				n.must(n.sender.Send(path.UDP(1000, 9, make([]byte, 400))))
			}
		}, "QDISC_DROP", []string{"all qdisc tbf 1:0 at out0, limit 2.0 KiB, rate 8000 bit/s"}},
		{"route", nil, (*network).sendAway, "IP_INNOROUTES", []string{"0 to 203.0.113.9 from 192.0.2.1 at rx0: no route"}},
		{"port", nil, func(n *network) { n.send(9, sent) }, "NO_SOCKET", []string{"0 one was for udp 192.0.2.2:9, from 192.0.2.1"}},
		{"way back", func(n *network) { n.set("ipv4/conf/rx0/rp_filter", "1") }, func(n *network) {
			path := testnet.TxToRx()
			path.Src.IPv4 = net.IP{203, 0, 113, 1}
			n.must(n.sender.Send(path.UDP(1000, 9, make([]byte, 100))))
		}, "IP_RPFILTER", []string{"0 from 203.0.113.1 at rx0: the way back is no route"}},
		{"neighbour", nil, func(n *network) { n.sendOut(net.IP{192, 0, 2, 200}, 9, 2) }, "NEIGH_FAILED", []string{"0 192.0.2.200 at rx0 does not answer"}},
		{"IPsec", func(n *network) {
			n.run("ip", "xfrm", "policy", "add", "dir", "in", "src", "192.0.2.0/24", "dst", "192.0.2.2/32", "action", "block")
		}, func(n *network) { n.send(9, sent) }, "XFRM_POLICY|NOT_SPECIFIED",
			[]string{"all xfrm policy, index 8: dir in src 192.0.2.0/24 dst 192.0.2.2/32 action block"}},
		{"XDP program", func(n *network) { n.attach(verdict(xdp.Aborted), link.XDPDriverMode) }, func(n *network) { n.send(9, sent) }, "aborted", []string{"0 program loses (id N)"}},
		{"map", (*network).redirectNowhere, func(n *network) { n.send(9, sent) }, "redirect: ", []string{"0 map targets (id N), a devmap, of program loses (id N)"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			n := newNetwork(t)
			n.meet()
			if test.before != nil {
				test.before(n)
			}
			if test.reason == "SOCKET_RCVBUFF" {
				n.must(n.Rx.Do(func() error {
					conn, err := net.ListenUDP("udp", &net.UDPAddr{Port: 7000})
					n.must(err)
					n.Cleanup(func() { conn.Close() })
					return conn.SetReadBuffer(1)
				}))
			}
			m := n.openMeter()
			test.do(n)
			var got []string
			sentAt := time.Now()
			testnet.WaitFor(t, test.reason, func() bool {
				if test.reason == "NEIGH_FAILED" && time.Since(sentAt) > 5*time.Second {
					test.do(n) // a timer drops the packets, which this kernel may hide: see exactly
					sentAt = time.Now()
				}
				c := n.counts(m)
				for l, tally := range c.Losses {
					if slices.ContainsFunc(strings.Split(test.reason, "|"), func(prefix string) bool { return strings.HasPrefix(l.Reason, prefix) }) {
						got = evidenceOf(c.Evidence[l], tally.Packets)
						return true
					}
				}
				return false
			})
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// openedBy is this process, as the owner of a socket.
func openedBy() string {
	name, _ := os.ReadFile("/proc/self/comm")
	return fmt.Sprintf("%s[%d]", strings.TrimSpace(string(name)), os.Getpid())
}

var idOfMap = regexp.MustCompile(`id \d+`)

// evidenceOf has the packets and the text of each culprit: "all" if they are all of the loss.
func evidenceOf(all []Evidence, packets uint64) (lines []string) {
	for _, e := range all {
		n := fmt.Sprint(e.Packets)
		if e.Packets == packets {
			n = "all"
		}
		lines = append(lines, n+" "+idOfMap.ReplaceAllString(e.Text, "id N"))
	}
	return lines
}

// redirectNowhere redirects everything by a map to an interface that is down.
func (n *network) redirectNowhere() {
	n.Helper()
	targets, err := ebpf.NewMap(&ebpf.MapSpec{Name: "targets", Type: ebpf.DevMap, KeySize: 4, ValueSize: 4, MaxEntries: 4})
	n.must(err)
	n.Cleanup(func() { targets.Close() })
	down := n.addDown()
	n.must(n.Rx.Do(func() error { return targets.Put(uint32(0), uint32(down)) }))
	n.attach(asm.Instructions{asm.LoadMapPtr(asm.R1, targets.FD()), asm.Mov.Imm(asm.R2, 0), asm.Mov.Imm(asm.R3, 0), asm.FnRedirectMap.Call()}, link.XDPDriverMode)
}

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
	for l, tally := range c.Losses {
		if l.Reason == "NETFILTER_DROP" {
			want := []string{"all conntrack: no free port for NAT (insert_failed 24): more addresses"}
			if diff := cmp.Diff(want, evidenceOf(c.Evidence[l], tally.Packets)); diff != "" {
				t.Error(diff)
			}
		}
	}
	if r := c.Check; len(r.Unexplained)+len(r.Unconfirmed)+len(r.Unchecked) > 0 {
		t.Errorf("%+v", r)
	}
}
