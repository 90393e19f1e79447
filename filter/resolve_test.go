package filter

import (
	"errors"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
	"github.com/xdpcap/xdpcap/filter/internal/filtertest"
)

// TestResolve compares an expression with names to the same one with numbers. It catches a
// transport that is forgotten, an address of the wrong family, and octets of a network on the wrong
// side.
func TestResolve(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ names, numbers string }{
		{"host both.example", "host 2001:db8::5 or host 192.0.2.5"},
		{"ip host both.example", "ip host 192.0.2.5"},
		{"ip6 src host both.example", "ip6 src host 2001:db8::5"},
		{"src both.example", "src host 2001:db8::5 or src host 192.0.2.5"},
		{"net lab", "net 10.9"},
		{"port web", "port 80"},
		{"port log", "udp port 514"},
		{"dst port odd", "tcp dst port 1"},
		{"udp port web", "udp port 80"},
		{"sctp port web", "sctp port 80"},
		{"portrange web-log", "portrange 80-514"},
		{`ip proto \gre`, "ip proto 47"},
		{"proto gre", "proto 47"},
		{"tcp port web or 22", "tcp port 80 or 22"},
		{"ether proto lldp", "ether proto 0x88cc"}, // words of libpcap 1.11
		{`ether proto \slow`, "ether proto 0x8809"},
	} {
		got, err := CompileRaw(c.names, Options{Resolver: filtertest.Resolver{}})
		if err != nil {
			t.Errorf("%s: %v", c.names, err)
			continue
		}
		want, err := CompileRaw(c.numbers, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s is\n%snot, as %s is,\n%s", c.names, Listing(got), c.numbers, Listing(want))
		}
	}
	for _, expr := range []string{"host nowhere", "arp host both.example", "net nowhere", "tcp port log", "port nothing", "sctp port odd", "tcp host both.example",
		"portrange web", `proto \nothing`} {
		if _, err := CompileRaw(expr, Options{Resolver: filtertest.Resolver{}}); err == nil {
			t.Errorf("%s: accepted", expr)
		}
	}
}

// A brokenResolver has a bug.
type brokenResolver struct{ filtertest.Resolver }

func (brokenResolver) Network(string) (uint32, error) { panic("a bug") }

// A bug, here that of the caller's Resolver, is no fault of the expression.
func TestBugIsNoFault(t *testing.T) {
	t.Parallel()
	defer func() {
		if r := recover(); r != "a bug" {
			t.Errorf("recovered %v", r)
		}
	}()
	_, err := CompileRaw("net lab", Options{Resolver: brokenResolver{}})
	t.Errorf("returned %v", err)
}

// TestNetmask catches a mask whose host part is taken for the network part.
func TestNetmask(t *testing.T) {
	t.Parallel()
	prog, err := CompileRaw("ip broadcast", Options{Netmask: net.CIDRMask(24, 32)})
	if err != nil {
		t.Fatal(err)
	}
	for dst, want := range map[string]bool{"10.1.2.255": true, "10.1.2.0": true, "10.1.2.3": false, "255.255.255.255": true} {
		pkt := filtertest.Frame(filtertest.Eth(1, 2), filtertest.BE(cbpf.EtherIP), filtertest.IPv4Header(cbpf.IPUDP, "10.1.2.3", dst, 0, 0, nil))
		if got := cbpf.Interpret(prog, pkt, uint32(len(pkt))) != 0; got != want {
			t.Errorf("ip broadcast on a packet to %s is %v", dst, got)
		}
	}
}

// TestDirection catches a capture that matches no packets because its filter contains inbound.
func TestDirection(t *testing.T) {
	t.Parallel()
	in, err := CompileRaw("inbound and tcp", Options{})
	if err != nil {
		t.Fatal(err)
	}
	tcp, _ := CompileRaw("tcp", Options{})
	for _, p := range filtertest.Packets() {
		if n := uint32(len(p)); cbpf.Interpret(in, p, n) != cbpf.Interpret(tcp, p, n) {
			t.Errorf("inbound and tcp is not tcp on %x", p)
		}
	}
	if _, err := CompileRaw("outbound", Options{}); !errors.Is(err, ErrNothing) {
		t.Errorf("outbound: %v, want that it rejects all packets", err)
	}
	packet := filtertest.Packets()[0]
	for text, want := range map[string][2]bool{
		"inbound": {true, false}, "outbound": {false, true}, "inbound or outbound": {true, true}, "not inbound and not arp": {false, true},
	} {
		received, sent, err := CompileBoth(text, Options{Outbound: true})
		if err != nil {
			t.Fatal(err)
		}
		if got := [2]bool{received.Run(packet, 60) != 0, sent.Run(packet, 60) != 0}; got != want {
			t.Errorf("%s: %v, want %v for packets that are received and sent", text, got, want)
		}
	}
	for text, want := range map[string]string{"inbound and outbound": "rejects all packets", "inbound and": "syntax error"} {
		if _, _, err := CompileBoth(text, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
