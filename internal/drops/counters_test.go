package drops

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Each format of the kernel's files is read, and a counter that does not rise is omitted.
func TestCounters(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		text string
		want Counters
	}{
		"pairs of lines": {
			`Ip: Forwarding InHdrErrors
Ip: 1 3
Tcp: MaxConn InErrs
Tcp: -1 18446744073709551615
Udp: NoPorts
Udp: 7
`, Counters{"IpForwarding": 1, "IpInHdrErrors": 3, "TcpInErrs": 1<<64 - 1, "UdpNoPorts": 7},
		},
		"a line for each": {
			"Ip6InHdrErrors                  \t3\nXfrmInNoStates          \t0\nSctpChecksumErrors\t12\n",
			Counters{"Ip6InHdrErrors": 3, "XfrmInNoStates": 0, "SctpChecksumErrors": 12},
		},
		"a line for each CPU": {
			"entries  clashres drop early_drop\n00000009  00000000 0000000a 00000001\n00000009  00000001 00000010 00000000\n",
			Counters{"conntrack clashres": 1, "conntrack drop": 26, "conntrack early_drop": 1},
		},
		"values are missing": {"TcpExt: ListenDrops TW\nTcpExt: 4\nIpExt:\n", Counters{"TcpExtListenDrops": 4}},
		"nothing":            {"", Counters{}},
	} {
		got := make(Counters)
		parseCounters(test.text, got)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	now, before := Counters{"a": 5, "b": 2, "c": 1, "new": 4}, Counters{"a": 2, "b": 2, "c": 9}
	if diff := cmp.Diff(Counters{"a": 3, "c": 1, "new": 4}, now.since(before)); diff != "" {
		t.Error(diff)
	}
}

// The kernel has all of the counters that accounts name, except those that came with a later
// version or with a module.
func TestCountersOfKernel(t *testing.T) {
	t.Parallel()
	all := make(Counters)
	for _, name := range counterFiles {
		f := openCounterFile(name)
		f.read(all)
		if err := f.close(); err != nil {
			t.Error(err)
		}
	}
	if err := all.addDevices(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"TcpExtListenDrops", "TcpExtListenOverflows", "TcpExtTCPReqQFullDrop", "UdpNoPorts", "Udp6InErrors", "IpInHdrErrors", "lo rx_dropped"} {
		if _, ok := all[name]; !ok {
			t.Errorf("no %s", name)
		}
	}
	missing := ""
	for _, a := range accounts {
		for _, name := range append(a.counters, a.within...) {
			if _, ok := all[name]; !ok {
				missing += " " + name
			}
		}
	}
	t.Logf("this kernel lacks%s", missing)
}
