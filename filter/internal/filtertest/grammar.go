package filtertest

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// Grammar makes random expressions, most of them valid.
type Grammar struct{ *rand.Rand }

// NewGrammar makes a Grammar that always gives the same expressions for the same seed.
func NewGrammar(seed uint64) Grammar { return Grammar{rand.New(rand.NewPCG(seed, 7))} }

func (g Grammar) pick(words ...string) string { return words[g.IntN(len(words))] }

// maybe returns s about once in n times, and "" otherwise.
func (g Grammar) maybe(n int, s string) string {
	if g.IntN(n) == 0 {
		return s
	}
	return ""
}

// Expression nests and, or and not over terms.
func (g Grammar) Expression(depth int) string {
	n := 1 + g.IntN(3)
	parts := []string{g.operand(depth)}
	for range n - 1 {
		parts = append(parts, g.pick("and", "or", "&&", "||"))
		if g.IntN(4) == 0 {
			parts = append(parts, g.bare())
		} else {
			parts = append(parts, g.operand(depth))
		}
	}
	return strings.Join(parts, " ")
}

// Contradiction returns an expression that tests the same few hosts, ports and protocols
// repeatedly, so that earlier tests decide most of its tests.
func (g Grammar) Contradiction(depth int) string {
	if depth == 0 || g.IntN(4) == 0 {
		return g.maybe(3, "not ") + g.pick("host 10.0.0.1", "host 1.2.3.4", "src host 1.2.3.4", "dst host 10.0.0.1", "host 192.168.1.1", "ip",
			"not ip", "tcp", "udp", "icmp", "port 80", "src port 80", "port 443", "tcp port 443", "portrange 80-443", "vlan", "vxlan",
			"ip6", "arp", "ether[12:2] > 1500", "ip[8] > 60", "ip[8] = 64", "ip[8] = 300", "len & 3 = 8", "len > 60", "len >= 2147483648", "ether[0] & 3 = 2", "ether[0] & 3 = 0", "ether[0] = 2",
			"ip[ip[0] & 15] = 6", "ip[ip[0] & 15] = 17", "len - 5 = 60", "len - 5 = 61", "len / (len - 54) > 3", "len / (len - 54) > 2", "tcp[len - 54] = 7")
	}
	return g.maybe(3, "not ") + "(" + g.Contradiction(depth-1) + g.pick(" and ", " or ") + g.Contradiction(depth-1) + ")"
}

// Inner returns an expression about packets that packets carry.
func (g Grammar) Inner(depth int) string {
	some := func() string {
		switch {
		case depth > 0 && g.IntN(4) == 0:
			return "(" + g.Inner(depth-1) + ")"
		case g.IntN(3) == 0:
			return g.operand(0)
		case g.IntN(3) == 0:
			return "(" + g.Contradiction(1) + ")"
		}
		return "(" + g.Expression(0) + ")"
	}
	text := g.maybe(4, "not ") + "inner " + g.maybe(4, "not ") + g.maybe(6, "inner ") + some()
	if g.IntN(2) == 0 {
		text += g.pick(" and ", " or ") + g.maybe(4, "not ") + g.maybe(2, "inner ") + some()
	}
	return text
}

func (g Grammar) operand(depth int) string {
	switch {
	case depth > 0 && g.IntN(4) == 0:
		return g.maybe(3, "not ") + "(" + g.Expression(depth-1) + ")"
	case g.IntN(6) == 0:
		return g.pick("not ", "!") + g.term()
	}
	return g.term()
}

// bare returns an identifier that inherits the qualifiers of the term before it.
func (g Grammar) bare() string {
	return g.pick("80", "443", "1.2.3.4", "10.0.0.1", "fe80::1", "http", `\tcp`, "6", "(22 or 53)", "not 22",
		"(1.2.3.4 or 10.0.0.1)", "02:00:00:00:00:01", "1000-2000")
}

// Protocols are the words that are a whole test.
var Protocols = []string{
	"ip", "ip6", "arp", "rarp", "tcp", "udp", "icmp", "icmp6", "igmp", "igrp", "pim", "sctp", "esp", "ah", "vrrp",
	"carp", "atalk", "aarp", "decnet", "iso", "clnp", "esis", "es-is", "isis", "is-is", "stp", "ipx", "netbeui", "lat", "moprc",
	"mopdl", "sca", "l1", "l2", "iih", "lsp", "snp", "csnp", "psnp", "tcp", "udp", "ip", "ip6",
}

func (g Grammar) term() string {
	switch g.IntN(22) {
	case 0, 1, 2:
		return g.pick(Protocols...)
	case 3, 4:
		return g.pick("", "", "ip ", "arp ", "rarp ") + g.dir() + g.pick("host ", "host ", "net ") + g.ipv4()
	case 5:
		return g.pick("", "", "ip6 ") + g.dir() + "host " + g.ipv6()
	case 6:
		return g.pick("", "ip ", "arp ") + g.dir() + "net " + g.pick("10.0.0.0/8", "10", "10.0", "192.168.1", "192.168.0.0 mask 255.255.0.0",
			"0.0.0.0/0", "1.2.3.4/32", "172.16.0.0/12", "127", "10.0.0.0 mask 255.0.0.0", "168430081", "loopback")
	case 7:
		return g.pick("", "ip6 ") + g.dir() + "net " + g.pick("fe80::/10", "2001:db8::/32", "::/0", "2001:db8::/65", "2001:db8::1/128", "ff00::/8")
	case 8, 9, 10:
		return g.pick("", "tcp ", "udp ", "sctp ") + g.dir() + "port " + g.pick("80", "443", "53", "http", "domain", "22", "0", "65535", "ssh", "tftp")
	case 11:
		return g.pick("", "tcp ", "udp ", "sctp ") + g.dir() + "portrange " + g.pick("1000-2000", "53", "80-80", "2000-1000", "0-65535", "ssh-http", "50-domain")
	case 12:
		return g.pick("ip ", "ip6 ", "", "ether ", "iso ", "isis ") + g.pick("proto ", "proto ", "proto ", "proto ", "protochain ") + g.pick("6", "17", "47", `\tcp`, `\udp`, "0x800", "0x86dd", "2048", "34525", "5", "300",
			`\ip`, `\arp`, `\iso`, `\stp`, `\esis`, `\icmp`, "gre", "33024", `\ipx`, `\netbeui`, "0x8137", "0x809b", "0xfe", "6", "1500", "1501")
	case 13:
		return g.pick("ether ", "wlan ", "link ") + g.pick("host ", "src ", "dst ", "src or dst ", "src and dst ") +
			g.pick("02:00:00:00:00:01", "ff:ff:ff:ff:ff:ff", "2:0:0:0:0:2", "0200.0000.0001", "02-00-00-00-00-02", "020000000001")
	case 14:
		return g.pick("", "ether ", "ip ", "ip6 ") + g.pick("broadcast", "multicast", "multicast")
	case 15:
		return g.pick("vlan", "vlan", "vlan 5", "vlan 100", "vlan (7)", "mpls", "mpls 16", "mpls 100000", "pppoed", "pppoes", "pppoes 1", "geneve", "geneve 5",
			"vxlan", "vxlan", "vxlan 5")
	case 16:
		return g.pick("less ", "greater ") + g.number()
	case 17:
		return g.pick("llc", "llc i", "llc s", "llc u", "llc rr", "llc rnr", "llc rej", "llc ui", "llc XID", "llc frmr", "byte 12 = 8", "byte 0 & 1",
			"byte 23 < 7", "byte 23 > 5", "byte 1 | 2", "decnet host 1.5", "decnet src 10.4", "decnet dst 3", "src and dst port 80", "dst or src host 1.2.3.4")
	default:
		return g.arith(2) + " " + g.pick("=", "==", "!=", "<", ">", "<=", ">=") + " " + g.arith(1)
	}
}

func (g Grammar) dir() string {
	return g.pick("", "", "", "src ", "dst ", "src or dst ", "src and dst ")
}

func (g Grammar) ipv4() string { return g.pick("1.2.3.4", "10.0.0.1", "10.0.0.2", "192.168.1.1") }

func (g Grammar) ipv6() string {
	return g.pick("fe80::1", "2001:db8::1", "2001:db8::2", "::1", "::ffff:1.2.3.4")
}

func (g Grammar) number() string {
	return g.pick("0", "1", "2", "3", "4", "7", "14", "20", "60", "64", "100", "0x10", "017", "1500", "0xffffffff", "2147483648", "4294967280", "65535", "tcp-syn", "icmp-echo")
}

func (g Grammar) arith(depth int) string {
	switch n := g.IntN(8); {
	case n == 0:
		return "len"
	case n < 3 || depth == 0:
		return g.number()
	case n < 6:
		return fmt.Sprintf("%s[%s%s]", g.pick("ether", "ip", "ip6", "tcp", "udp", "icmp", "icmp6", "arp", "sctp", "igmp", "ip", "tcp"),
			g.pick("0", "2", "tcpflags", "icmptype", "9", "12", "20", g.arith(depth-1)), g.pick("", ":1", ":2", ":4"))
	case n == 6:
		return g.pick("-", "(") + g.arith(depth-1)
	default:
		x := g.arith(depth-1) + " " + g.pick("+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>") + " " + g.arith(depth-1)
		return g.pick(x, "("+x+")")
	}
}
