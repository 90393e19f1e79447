package filter

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/filter/internal/filtertest"
	"github.com/xdpcap/xdpcap/internal/headers"
)

// For packets that begin with a cooked header, with IP or with a header of BSD's loopback,
// expressions have the same meaning as in libpcap, or both refuse them.
func TestLinkTypes(t *testing.T) {
	t.Parallel()
	expressions := append([]string{
		"icmp", "port 53", "inbound", "outbound", "not outbound and tcp", "vlan", "ether host 2:0:0:0:0:1", "broadcast",
		"ether multicast", "ip multicast", "ether proto 0x88cc", "arp", "stp", "iso", "ether[2] = 1", "tcp[13] & 2 != 0", "mpls",
		"ipx", "netbeui", "atalk", "aarp", "less 100", "llc", "ether proto 5", "pppoes and ip", "host 10.0.0.1 and udp",
		"net 10.0.0.0/8", "ip6 host fd00::1", "icmp6[0] = 135", "portrange 5-9", "isis", "decnet host 1.1", "byte 0 = 4",
		"geneve and tcp", "ip proto 47", "proto 47", "sctp", "src net 10.0.0.0/8 or dst port 80",
	}, filtertest.Corners...)
	ofNetwork := func(p []byte) bool { return len(p) > 0 && p[0] == 0 }
	ofHost := func(p []byte) bool { return len(p) > 0 && p[0] != 0 }
	for _, of := range []struct {
		link headers.Link
		dlt  int
		omit func([]byte) bool // packets in the byte order that libpcap does not expect
	}{{headers.Cooked, 113, nil}, {headers.Cooked2, 276, nil}, {headers.Raw, 12, nil}, {headers.Loopback, 0, ofNetwork}, {headers.Loopback, 108, ofHost}} {
		pkts, accepted := allCuts()[of.link], 0
		if of.omit != nil {
			pkts = slices.DeleteFunc(slices.Clone(pkts), of.omit)
		}
		for _, expr := range expressions {
			direction := (of.link == headers.Raw || of.link == headers.Loopback) && strings.Contains(expr, "bound") // libpcap asks the socket
			if !direction && sameAsLibpcap(t, expr, of.link, of.dlt, pkts) {
				accepted++
			}
		}
		if accepted < 30 {
			t.Errorf("link type %d: libpcap accepts %d", of.dlt, accepted)
		}
	}
	if _, err := Compile("ip", Options{LinkType: 105}); err == nil || KnowsLinkType(105) {
		t.Error("802.11 is known")
	}
}

// The header of BSD's loopback is read in either byte order, with every system's number for IPv6.
func TestLoopbackFamilies(t *testing.T) {
	t.Parallel()
	ip := filtertest.IPv4Header(6, "10.0.0.1", "10.0.0.2", 0, 0, filtertest.PortHeader(1234, 80, 2))
	ip6 := filtertest.IPv6Header(6, "fd00::1", "fd00::2", filtertest.PortHeader(1234, 80, 2))
	for _, test := range []struct {
		family  byte
		payload []byte
		want    string
	}{{2, ip, "true false true"}, {24, ip6, "false true true"}, {28, ip6, "false true true"}, {30, ip6, "false true true"}, {7, ip, "false false false"}} {
		for _, header := range [][]byte{{0, 0, 0, test.family}, {test.family, 0, 0, 0}} {
			pkt, got := filtertest.Frame(header, test.payload), []string{}
			for _, expr := range []string{"ip host 10.0.0.2", "ip6 src fd00::1", "tcp port 80"} {
				prog, err := CompileRaw(expr, Options{LinkType: 108})
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, fmt.Sprint(Run(prog, pkt, uint32(len(pkt))) != 0))
			}
			if got := strings.Join(got, " "); got != test.want {
				t.Errorf("family % x: %s, want %s", header, got, test.want)
			}
		}
	}
}
