package filter

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
	"github.com/xdpcap/xdpcap/filter/internal/filtertest"
)

// inner looks into each kind of tunnel. The innermost packet is TCP from 10.0.0.2, port 1234, to
// 192.168.1.1, port 22; all others are between 1.2.3.4 and 10.0.0.1, or 2001:db8::1 and fe80::1.
func TestInner(t *testing.T) {
	t.Parallel()
	frame := func(typ uint16, parts ...[]byte) []byte {
		return filtertest.Frame(filtertest.Eth(2, 1), filtertest.BE(typ), filtertest.Frame(parts...))
	}
	v4 := func(protocol byte, parts ...[]byte) []byte {
		return frame(cbpf.EtherIP, filtertest.IPv4Header(protocol, "1.2.3.4", "10.0.0.1", 0, 0, filtertest.Frame(parts...)))
	}
	v6 := func(protocol byte, parts ...[]byte) []byte {
		return frame(cbpf.EtherIP6, filtertest.IPv6Header(protocol, "2001:db8::1", "fe80::1", filtertest.Frame(parts...)))
	}
	udp := func(port uint16) []byte {
		return filtertest.Frame(filtertest.BE(50000), filtertest.BE(port), make([]byte, 4))
	}
	ip := filtertest.IPv4Header(cbpf.IPTCP, "10.0.0.2", "192.168.1.1", 0, 0, filtertest.PortHeader(1234, 22, 2))
	plain := filtertest.Frame(filtertest.Eth(9, 8), filtertest.BE(cbpf.EtherIP), ip)
	vxlan := []byte{8, 0, 0, 0, 0, 0, 5, 0}
	fragment := func(offset byte) []byte {
		b := v4(cbpf.IPIPIP, ip)
		b[14+7] = offset
		return b
	}
	packets := []namedPacket{
		{"plain", plain},
		{"short", plain[:36]},
		{"tag", frame(cbpf.Ether8021Q, []byte{0, 5}, filtertest.BE(cbpf.EtherIP), ip)},
		{"label", frame(cbpf.EtherMPLS, []byte{0, 1, 0x10, 64, 0, 1, 0x21, 64}, ip)},
		{"pppoe", frame(cbpf.EtherPPPoES, []byte{0x11, 0, 0, 1, 0, 50, 0, 0x21}, ip)},
		{"ipip", v4(cbpf.IPIPIP, ip)},
		{"later", fragment(5)},
		{"4in6", v6(cbpf.IPIPIP, ip)},
		{"options", v6(cbpf.IPDestination, []byte{cbpf.IPIPIP, 0, 1, 4, 0, 0, 0, 0}, ip)},
		{"srv6", v6(cbpf.IPRouting, []byte{cbpf.IPEthernet, 2, 4, 0, 0, 0, 0, 0}, make([]byte, 16), plain)},
		{"gre", v4(cbpf.IPGRE, []byte{0xb0, 0, 8, 0}, make([]byte, 12), ip)},
		{"bridge", v4(cbpf.IPGRE, []byte{0, 0, 0x65, 0x58}, plain)},
		{"erspan", v4(cbpf.IPGRE, []byte{0x10, 0, 0x88, 0xbe, 0, 0, 0, 1}, []byte{0x10, 0, 0, 0, 0, 0, 0, 0}, plain)},
		{"vxlan", v4(cbpf.IPUDP, udp(4789), vxlan, plain)},
		{"two", v6(cbpf.IPUDP, udp(8472), vxlan, v4(cbpf.IPIPIP, ip))},
		{"gpe", v4(cbpf.IPUDP, udp(4790), []byte{0x0c, 0, 0, 1, 0, 0, 5, 0}, ip)},
		{"geneve", v4(cbpf.IPUDP, udp(6081), []byte{1, 0, 0x65, 0x58, 0, 0, 5, 0, 0, 1, 2, 0}, plain)},
		{"gtp", v4(cbpf.IPUDP, udp(2152), []byte{0x34, 255, 0, 66, 0, 0, 0, 7, 0, 1, 0, 0x85, 1, 0, 9, 0}, ip)},
		{"echo", v4(cbpf.IPUDP, udp(2152), []byte{0x32, 1, 0, 4, 0, 0, 0, 0, 0, 1, 0, 0})},
		{"cut", v4(cbpf.IPUDP, udp(4789), vxlan, plain[:33])},
	}
	frames := "srv6 bridge erspan vxlan two geneve"
	all := "tag label pppoe ipip 4in6 options srv6 gre bridge erspan vxlan two gpe geneve gtp"
	for expr, want := range map[string]string{
		"inner src host 10.0.0.2":                      all,
		"inner tcp dst port 22":                        all,
		"inner tcp[13] = 2":                            all,
		"tcp port 22":                                  "plain",
		"not inner ip":                                 "plain short later echo cut",
		"inner tcp port 22 or tcp":                     "plain short " + all,
		"inner not ip":                                 "",
		"inner ether src 02:00:00:00:00:08":            strings.Replace(frames, " two", "", 1),
		"inner ether[6:4] = 0x02000000":                frames,
		"inner inner ip":                               "two",
		"inner (ip proto 4 and inner tcp)":             "two",
		"inner host 1.2.3.4":                           "two",
		"udp port 4789 and inner tcp":                  "vxlan",
		"vxlan 5 and inner host 10.0.0.2":              "vxlan",
		"vxlan 6 and inner host 10.0.0.2":              "",
		"inner host 10.0.0.2 and vlan 5":               "tag",
		"vlan 5 and inner host 10.0.0.2":               "tag",
		"inner port 22 and not inner inner ip and ip6": "4in6 options srv6",
	} {
		got := takenBy(t, expr, packets)
		if diff := cmp.Diff(strings.Fields(want), got); diff != "" && (want != "" || got != nil) {
			t.Errorf("%s: %s", expr, diff)
		}
	}
}

// What is wrong with inner is said at its place.
func TestInnerErrors(t *testing.T) {
	t.Parallel()
	for expr, want := range map[string]string{
		"inner":                                 "ends too early",
		"inner or tcp":                          "syntax error",
		"inner host 1.2.3.4 or 10.0.0.1":        "nothing says what this is",
		"tcp port 80 and (22 or inner 443)":     "syntax error",
		"inner inner inner inner inner ip":      "inner is nested 5 deep",
		"inner (ip and inner (vlan and foo))":   "nothing says what this is",
		"vlan and inner (pppoes and broadcast)": "no Ethernet header inside PPP",
	} {
		if _, err := CompileRaw(expr, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q in it", expr, err, want)
		}
	}
	if word := Moved("inner (vlan 5) or ip"); word != "" {
		t.Errorf("%q moves a test outside of inner", word)
	}
	if word := Moved("tcp and inner (vlan 5 or ip)"); word != "vlan" {
		t.Errorf("%q moves a test inside of inner, and not vlan", word)
	}
}
