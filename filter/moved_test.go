package filter

import "testing"

// Moved finds an "or" whose tests apply behind a header that only the other side tests for.
func TestMoved(t *testing.T) {
	t.Parallel()
	for expr, want := range map[string]string{
		"vlan 5 or ip":                               "vlan",
		"(vlan 5 and tcp) or (vlan 6 and udp)":       "vlan",
		"not (mpls and ip) or port 80":               "mpls",
		"ip and (vxlan 7 or geneve)":                 "vxlan",
		"pppoes or tcp[13] = 2":                      "pppoes",
		"geneve and (tcp or udp)":                    "",
		"ip or vlan":                                 "",
		"tcp or (vlan and tcp)":                      "",
		"vlan or less 100 or len = 5 or inbound":     "",
		"pppoed or ip":                               "",
		"vlan and (ip or ip6) and not (tcp or port)": "", // faulty
		"": "",
	} {
		if got := Moved(expr); got != want {
			t.Errorf("%q: %q, want %q", expr, got, want)
		}
	}
}
