package lost

import (
	"strings"
	"sync"
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
		"softnet": {
			"0000a1b2 00000002 0000000a 00000000 00000000\n00000000 000000ff 00000003\n",
			Counters{"softnet full": 257, "softnet squeezed": 13},
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
	if diff := cmp.Diff(Counters{"a": 3, "c": 1, "new": 4}, now.Since(before)); diff != "" {
		t.Error(diff)
	}
}

// A counter is found by its name, and the file can be read again.
func TestValue(t *testing.T) {
	t.Parallel()
	const name = "TcpRetransSegs"
	of := func(text string) CounterFile { return CounterFile{strings.NewReader(text), nil, new(sync.Mutex)} }
	if n, err := of("Ip: Forwarding\nIp: 1\nTcp: MaxConn InSegs RetransSegs\nTcp: -1 70 42\n").Value(name); n != 42 || err != nil {
		t.Error(n, err)
	}
	for _, text := range []string{"", "Tcp: InSegs\nTcp: 5\n", "Tcp: InSegs RetransSegs\nTcp: 5\n"} {
		if n, err := of(text).Value(name); err == nil {
			t.Errorf("%d in %q", n, text)
		}
	}
	softnet := OpenCounters(OfSoftnet)
	defer softnet.Close()
	if _, err := softnet.Value("softnet full"); err != nil {
		t.Error(err)
	}
	f := OpenCounters(OfIP)
	defer f.Close()
	for range 2 {
		if _, err := f.Value(name); err != nil {
			t.Error(err)
		}
	}
}
