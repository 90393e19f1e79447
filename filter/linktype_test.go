package filter

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/filter/internal/filtertest"
)

// For packets that begin with a cooked header or with IP, expressions compile to the same programs
// as libpcap's, or both refuse them.
func TestLinkTypes(t *testing.T) {
	t.Parallel()
	for dlt, typ := range map[int]uint16{cooked: 113, cooked2: 276, rawIP: 101} {
		expressions := append([]string{
			"icmp", "port 53", "inbound", "outbound", "not outbound and tcp", "vlan", "ether host 2:0:0:0:0:1", "broadcast",
			"ether multicast", "ip multicast", "ether proto 0x88cc", "arp", "stp", "iso", "ether[2] = 1", "tcp[13] & 2 != 0", "mpls",
			"ipx", "netbeui", "atalk", "aarp", "less 100", "llc", "ether proto 5", "pppoes and ip", "host 10.0.0.1 and udp",
			"net 10.0.0.0/8", "ip6 host fd00::1", "icmp6[0] = 135", "portrange 5-9", "isis", "decnet host 1.1", "byte 0 = 4",
			"geneve and tcp", "ip proto 47", "proto 47", "sctp", "src net 10.0.0.0/8 or dst port 80",
		}, filtertest.Corners...)
		identical := 0
		for _, expr := range expressions {
			want, wantErr := libpcap(t, dlt, "-ddd", expr)
			prog, err := CompileRaw(expr, Options{LinkType: typ, Netmask: filtertest.AnyMask})
			switch rawDirection := typ == 101 && strings.Contains(expr, "bound"); {
			case rawDirection: // libpcap asks the socket
			case refusedSince(err):
			case wantErr != nil && strings.Contains(wantErr.Error(), "rejects all"):
				if !errors.Is(err, ErrNothing) {
					t.Errorf("link type %d, %q: %v, want %v", typ, expr, err, ErrNothing)
				}
			case (wantErr == nil) != (err == nil):
				t.Errorf("link type %d, %q: libpcap: %v\nCompileRaw: %v", typ, expr, wantErr, err)
			case err == nil:
				if diff := cmp.Diff(want, Decimal(prog)); diff != "" {
					t.Errorf("link type %d, %q (-tcpdump +ours): %s", typ, expr, diff)
				}
				identical++
			}
		}
		if identical < 30 {
			t.Errorf("link type %d: %d programs are libpcap's", typ, identical)
		}
	}
	if _, err := Compile("ip", Options{LinkType: 105}); err == nil || KnowsLinkType(105) {
		t.Error("802.11 is known")
	}
}
