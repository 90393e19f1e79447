package culprit

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// Rules that can drop packets are printed as nft and iptables do, as far as their words are known,
// with the place of each and whether a counter tells what it has dropped.
func TestRules(t *testing.T) {
	t.Parallel()
	testnet.Require(t, "nft")
	testnet.Require(t, "iptables-legacy")
	testnet.RequireRoot(t)
	ns, err := testnet.NewNamespace()
	testnet.Must(t, err)
	t.Cleanup(func() { ns.Close() })
	run := func(input string, command ...string) {
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Stdin = strings.NewReader(input)
		testnet.Must(t, ns.Do(func() error {
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %v: %s", command, err, out)
			}
			return nil
		}))
	}
	run(`table inet f {
	set bad { type ipv4_addr; elements = { 10.9.9.9 } }
	chain in {
		type filter hook input priority 0; policy drop;
		ct state vmap { established : accept, invalid : drop }
		iifname "eth*" tcp dport { 22, 80 } counter drop
		iif lo accept
		ip saddr @bad counter drop
		ip saddr 10.0.0.0/8 udp dport 53 counter log drop
		ip saddr 10.1.2.0/23 udp dport 100-200 counter udp sport 5 drop comment "my comment"
		ip6 saddr 2001:db8::/32 tcp flags syn counter drop
		ct state invalid,new counter reject
		meta mark 0x5 limit rate 5/second counter drop
		udp sport != 53 udp dport != 5-10 counter drop
		icmp type 8 drop
		ct mark and 0xff == 0x1 drop
		ct status snat,dnat drop
		meta l4proto udp @th,64,16 0x1234 drop
	}
	chain other { ip protocol sctp oifname "eth0" drop; }
}
table netdev nd {
	chain out { type filter hook egress device "lo" priority 0; ether type arp drop; }
}
`, "nft", "-f", "-")
	run("", "iptables-nft", "-A", "FORWARD", "-p", "udp", "-m", "multiport", "--dports", "7,8", "-m", "comment", "--comment", "said", "-j", "REJECT")
	run("", "iptables-nft", "-P", "FORWARD", "DROP")
	run("", "iptables-legacy", "-A", "INPUT", "-s", "10.0.0.0/8", "!", "-i", "eth+", "-p", "udp", "-m", "multiport", "--dports", "7,8", "-m", "comment", "--comment", "said", "-j", "DROP")
	run("", "iptables-legacy", "-N", "own")
	run("", "iptables-legacy", "-A", "own", "-j", "ACCEPT")
	run("", "iptables-legacy", "-A", "own", "-p", "tcp", "--dport", "80:90", "-m", "length", "--length", "40", "-j", "REJECT")
	run("", "iptables-legacy", "-P", "FORWARD", "DROP")
	run("", "ip6tables-legacy", "-A", "OUTPUT", "-d", "2001:db8::/32", "-p", "udp", "!", "--dport", "5", "-j", "DROP")

	var got []string
	testnet.Must(t, ns.Do(func() error {
		w := openFirewall()
		defer w.close()
		all, err := w.rules()
		for _, r := range all {
			line := r.evidence().Text
			if !r.hasCounter {
				line += " (no counter)"
			}
			got = append(got, line)
		}
		return err
	}))
	want := []string{
		"nft inet f in, policy: drop (no counter)",
		"nft ip filter FORWARD, policy: drop",
		"nft inet f in, handle 5: ct state vmap @__map0 (no counter)",
		`nft inet f in, handle 7: iifname "eth*" tcp dport { 22, 80 } drop`,
		"nft inet f in, handle 9: ip saddr @bad drop",
		"nft inet f in, handle 10: ip saddr 10.0.0.0/8 udp dport 53 log drop",
		`nft inet f in, handle 11: ip saddr 10.1.2.0/23 udp dport >= 100 udp dport <= 200 udp sport 5 drop "my comment" (no counter)`,
		"nft inet f in, handle 12: ip6 saddr 2001:db8::/32 tcp flags & 0x02 != 0x00 drop",
		"nft inet f in, handle 13: ct state invalid,new reject",
		"nft inet f in, handle 14: meta mark 0x5 limit drop",
		"nft inet f in, handle 15: udp sport != 53 udp dport != 5-10 drop",
		"nft inet f in, handle 16: meta nfproto ipv4 icmp type 8 drop (no counter)",
		"nft inet f in, handle 17: ct mark & 0xff == 0x1 drop (no counter)",
		"nft inet f in, handle 18: ct status 0x30 drop (no counter)",
		"nft inet f in, handle 19: meta l4proto udp @th,64,16 0x1234 drop (no counter)",
		`nft inet f other, handle 20: ip protocol sctp oifname "eth0" drop (no counter)`,
		"nft netdev nd out, handle 2: meta iiftype 1 ether type arp drop (no counter)",
		`nft ip filter FORWARD, handle 2: meta l4proto udp --dports 7,8 "said" REJECT`,
		`iptables filter INPUT, rule 1: -s 10.0.0.0/8 ! -i eth+ -p udp --dports 7,8 "said" -j DROP`,
		"iptables filter FORWARD, policy: DROP",
		"iptables filter own, rule 2: -p tcp --dport 80:90 -m length -j REJECT",
		"ip6tables filter OUTPUT, rule 1: -d 2001:db8::/32 -p udp ! --dport 5 -j DROP",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
