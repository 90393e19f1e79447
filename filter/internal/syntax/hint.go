package syntax

import (
	"maps"
	"slices"
	"strings"

	"github.com/xdpcap/xdpcap/internal/message"
)

// displayFields are fields of Wireshark's display filters that are not host names, and their
// equivalents in this language.
var displayFields = map[string]string{
	"ip.addr": "host 192.0.2.1", "ip.src": "src host 192.0.2.1", "ip.dst": "dst host 192.0.2.1", "ipv6.addr": "host 2001:db8::1",
	"tcp.port": "tcp port 443", "tcp.srcport": "tcp src port 443", "tcp.dstport": "tcp dst port 443",
	"udp.port": "udp port 53", "udp.srcport": "udp src port 53", "udp.dstport": "udp dst port 53",
	"eth.addr": "ether host 02:00:00:00:00:01", "eth.src": "ether src 02:00:00:00:00:01", "eth.dst": "ether dst 02:00:00:00:00:01",
	"eth.type": "ether proto 0x0800", "vlan.id": "vlan 100", "ip.proto": "ip proto 47", "frame.len": "greater 1000",
}

// failDisplayFilter fails if the token is a field of a Wireshark display filter.
func failDisplayFilter(t Token) {
	if instead, ok := displayFields[t.Text]; ok {
		t.Fail("write it as in "+instead, "this is a Wireshark display filter")
	}
}

// popular are common names of services and protocols that are no keywords, and their equivalents in
// this language. After "port" a name is looked up in /etc/services, which lacks most of these.
var popular = map[string]string{
	"dns": "port 53", "dhcp": "port 67 or port 68", "dhcp4": "port 67 or port 68", "dhcp6": "port 546 or port 547",
	"http": "tcp port 80", "https": "tcp port 443", "tls": "tcp port 443", "ssl": "tcp port 443", "quic": "udp port 443",
	"ssh": "tcp port 22", "ntp": "udp port 123", "bgp": "tcp port 179", "syslog": "udp port 514", "snmp": "udp port 161",
	"ping": "icmp or icmp6", "icmpv6": "icmp6", "ipv4": "ip", "ip4": "ip", "ipv6": "ip6", "ethernet": "ether", "wireguard": "udp port 51820",
	"syn": "tcp[tcpflags] & tcp-syn != 0", "rst": "tcp[tcpflags] & tcp-rst != 0", "bpdu": "stp", "lldp": "ether proto 0x88cc",
}

// PortsOf returns the expression for the ports of a popular name: "port 53" for dns. It returns ""
// if the name has no ports.
func PortsOf(word string) string {
	if _, ports, ok := strings.Cut(popular[word], "port "); ok {
		return "port " + ports
	}
	return ""
}

// hintFor returns the hint for a word that is no keyword.
func hintFor(t Token) string {
	if instead, ok := popular[t.Text]; ok {
		return "write " + instead
	}
	words := slices.Concat(slices.Sorted(maps.Keys(keywords)), slices.Sorted(maps.Keys(protocols)))
	if near := message.DidYouMean("", t.Text, words); near != "" {
		return strings.TrimPrefix(near, ": ")
	}
	return "put a word like host, net or port before it"
}
