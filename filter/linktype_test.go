package filter

import (
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/filter/internal/filtertest"
	"github.com/xdpcap/xdpcap/internal/link"
)

// For packets that begin with a cooked header or with IP, expressions mean what they mean to libpcap,
// or both refuse them.
func TestLinkTypes(t *testing.T) {
	t.Parallel()
	expressions := append([]string{
		"icmp", "port 53", "inbound", "outbound", "not outbound and tcp", "vlan", "ether host 2:0:0:0:0:1", "broadcast",
		"ether multicast", "ip multicast", "ether proto 0x88cc", "arp", "stp", "iso", "ether[2] = 1", "tcp[13] & 2 != 0", "mpls",
		"ipx", "netbeui", "atalk", "aarp", "less 100", "llc", "ether proto 5", "pppoes and ip", "host 10.0.0.1 and udp",
		"net 10.0.0.0/8", "ip6 host fd00::1", "icmp6[0] = 135", "portrange 5-9", "isis", "decnet host 1.1", "byte 0 = 4",
		"geneve and tcp", "ip proto 47", "proto 47", "sctp", "src net 10.0.0.0/8 or dst port 80",
	}, filtertest.Corners...)
	for _, l := range []link.Type{link.Cooked, link.Cooked2, link.Raw} {
		accepted := 0
		for _, expr := range expressions {
			rawDirection := l == link.Raw && strings.Contains(expr, "bound") // libpcap asks the socket
			if !rawDirection && sameAsLibpcap(t, expr, l, allCuts()[l]) {
				accepted++
			}
		}
		if accepted < 30 {
			t.Errorf("link type %d: libpcap accepts %d", l, accepted)
		}
	}
	if _, err := Compile("ip", Options{LinkType: 105}); err == nil || KnowsLinkType(105) {
		t.Error("802.11 is known")
	}
}
