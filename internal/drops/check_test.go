package drops

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/xdpcap/xdpcap/internal/lost"
)

// Counters and losses are compared: what both have leaves nothing, and what only one of them has is
// in the remainder.
func TestCompare(t *testing.T) {
	t.Parallel()
	noSocket := Loss{Stage: Stack, Reason: "NO_SOCKET", Where: "__udp4_lib_rcv", Device: "eth0"}
	noSocketTCP := Loss{Stage: Stack, Reason: "NO_SOCKET", Where: "tcp_v4_rcv", Device: "eth0"}
	buffer := Loss{Stage: Socket, Reason: "SOCKET_RCVBUFF", Where: "udp_queue_rcv_one_skb", Device: "eth0"}
	rule := Loss{Stage: Stack, Reason: "NETFILTER_DROP", Where: "nf_hook_slow", Device: ""}
	queue := Loss{Stage: Egress, Reason: "QDISC_DROP", Where: "__dev_queue_xmit", Device: "eth1"}
	hidden := Loss{Stage: Stack, Reason: "NO_SOCKET", Where: "0xffffffff81000000", Device: "eth0"}
	type losses = map[knownLoss]uint64
	for name, test := range map[string]struct {
		least, most lost.Counters // most is the same if it is nil
		losses      losses
		want        Remainder
	}{
		"nothing":   {},
		"agreement": {least: lost.Counters{"UdpNoPorts": 5, "UdpInErrors": 2, "UdpRcvbufErrors": 2}, losses: losses{{noSocket, true}: 5, {buffer, true}: 2}},
		"a counter alone": {
			least: lost.Counters{"TcpExtListenDrops": 36, "TcpExtListenOverflows": 36},
			want:  Remainder{Unexplained: []CounterRise{{"TcpExtListenDrops", 36}}},
		},
		"a counter of more packets": {
			least:  lost.Counters{"UdpNoPorts": 5, "Udp6NoPorts": 2},
			losses: losses{{noSocket, true}: 4},
			want:   Remainder{Unexplained: []CounterRise{{"UdpNoPorts+Udp6NoPorts", 3}}},
		},
		"packets after the first reading":     {least: lost.Counters{"UdpNoPorts": 5}, most: lost.Counters{"UdpNoPorts": 9}, losses: losses{{noSocket, true}: 7}},
		"a loss alone":                        {losses: losses{{noSocket, true}: 4}, want: Remainder{Unconfirmed: []LossPackets{{noSocket, 4}}}},
		"a loss perhaps of another namespace": {losses: losses{{noSocket, false}: 4}},
		"which explains a counter":            {least: lost.Counters{"UdpNoPorts": 4}, losses: losses{{noSocket, false}: 4}},
		"segments of one buffer":              {least: lost.Counters{"UdpInErrors": 1}, losses: losses{{buffer, true}: 40}},
		"a loss without a counter": {
			losses: losses{{noSocketTCP, true}: 3, {rule, true}: 2},
			want:   Remainder{Unchecked: []LossPackets{{noSocketTCP, 3}, {rule, 2}}},
		},
		"a rule for what is sent":              {least: lost.Counters{"IpOutDiscards": 2}, losses: losses{{rule, true}: 2}},
		"a sender with an error":               {least: lost.Counters{"IpOutDiscards": 9, "UdpSndbufErrors": 9, "Ip6OutNoRoutes": 3, "IcmpInErrors": 1}},
		"functions are hidden":                 {least: lost.Counters{"UdpNoPorts": 4}, losses: losses{{hidden, true}: 4}},
		"a queue":                              {least: lost.Counters{"eth1 qdisc_drops": 8}, losses: losses{{queue, true}: 8}},
		"a queue of another interface":         {least: lost.Counters{"eth0 qdisc_drops": 8}, losses: losses{{queue, true}: 8}, want: Remainder{Unexplained: []CounterRise{{"eth0 qdisc_drops", 8}}, Unchecked: []LossPackets{{queue, 8}}}},
		"an interface":                         {least: lost.Counters{"eth0 rx_dropped": 1, "eth2 tx_errors": 4}, losses: losses{{noSocketTCP, false}: 1}, want: Remainder{Unexplained: []CounterRise{{"eth2 tx_errors", 4}}}},
		"conntrack":                            {least: lost.Counters{"conntrack drop": 24, "conntrack insert_failed": 24}, losses: losses{{rule, true}: 24}},
		"a counter that counts no losses":      {least: lost.Counters{"TcpOutRsts": 4, "UdpIgnoredMulti": 7}},
		"a counter that counts others' losses": {least: lost.Counters{"UdpRcvbufErrors": 4, "IpExtInCsumErrors": 7}},
	} {
		if test.most == nil {
			test.most = test.least
		}
		want := test.want
		if want.Unexplained == nil {
			want.Unexplained = []CounterRise{}
		}
		for _, list := range []*[]LossPackets{&want.Unconfirmed, &want.Unchecked} {
			if *list == nil {
				*list = []LossPackets{}
			}
		}
		if diff := cmp.Diff(want, compare(test.least, test.most, test.losses)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// No loss must raise the counters of two accounts, and each account has a counter and a cause.
func TestAccounts(t *testing.T) {
	t.Parallel()
	of := make(map[string]string)
	for _, a := range append(accounts, accountsOfDevice...) {
		if len(a.counters) == 0 || len(a.always)+len(a.sometimes) == 0 {
			t.Errorf("%+v", a)
		}
		for _, name := range append(a.counters, a.always...) {
			if of[name] != "" {
				t.Errorf("%s is in the accounts of %s and %s", name, of[name], a.counters[0])
			}
			of[name] = a.counters[0]
		}
	}
}

// The kernel has all of the counters that accounts name, except those that came with a later
// version or with a module.
func TestCountersOfKernel(t *testing.T) {
	t.Parallel()
	all := make(lost.Counters)
	for _, name := range lost.CounterFiles {
		f := lost.OpenCounters(name)
		f.Read(all)
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := all.AddDevices(); err != nil {
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
