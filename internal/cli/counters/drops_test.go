package counters

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/drops"
	"github.com/xdpcap/xdpcap/internal/meter"
)

// The table has the losses by stage, the largest first, their sum and what to do, and never a line
// that is too long.
func TestTable(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("long_", 20)
	now := drops.Counts{
		Losses: map[drops.Loss]drops.Tally{
			{Stage: drops.Stack, Reason: "NO_SOCKET", Where: "__udp4_lib_rcv"}:                   {Packets: 5, Bytes: 500},
			{Stage: drops.Stack, Reason: "IP_RPFILTER", Where: "ip_rcv", Device: "vlan7"}:        {Packets: 7, Bytes: 700},
			{Stage: drops.XDP, Reason: "drop", Where: "lb (id 7)"}:                               {Packets: 1},
			{Stage: drops.Socket, Reason: long, Where: long, Device: "abcdefghijklmno"}:          {Packets: 1e11},
			{Stage: drops.Egress, Reason: "redirect: " + long, Where: long, Device: "123456789"}: {Packets: 1},
		},
		Harmless:   map[drops.Loss]drops.Tally{{Stage: drops.Stack, Reason: "OTHERHOST"}: {Packets: 9}},
		Duplicates: map[drops.Loss]drops.Tally{{Stage: drops.Socket, Reason: "TCP_OLD_DATA", Device: "veth0", Netns: 4026532501}: {Packets: 3}},
		Unclear:    map[drops.Loss]drops.Tally{{Stage: drops.Socket, Reason: "SOCKET_RCVBUFF", Device: "?"}: {Packets: 2}},
		Listeners: map[drops.Loss]drops.Tally{
			{Stage: drops.Socket, Reason: "TCP_LISTEN_OVERFLOW", Where: long + " :80, backlog 128"}: {Packets: 36},
		},
		Check: &drops.Remainder{
			Unexplained: []drops.CounterRise{{Counter: long, Packets: 1e11}},
			Unconfirmed: []drops.LossPackets{{Loss: drops.Loss{Reason: long, Where: long}, Packets: 1e11}},
			Unchecked: []drops.LossPackets{
				{Loss: drops.Loss{Reason: long}, Packets: 5}, {Loss: drops.Loss{Reason: "NO_SOCKET", Where: "a"}, Packets: 3},
				{Loss: drops.Loss{Reason: "NO_SOCKET", Where: "b"}, Packets: 4},
			},
		},
		Missed:  4,
		Softnet: drops.Softnet{Full: 1e11, Squeezed: 1e11},
	}
	i := dropsInterval{Now: now, Took: time.Second, Elapsed: time.Second}
	var b strings.Builder
	NewDropsReport(&DropsOptions{harmless: true, pods: map[uint32]string{4026532501: "default/web"}}, "eth0", i).WriteTable(&frame.Page{Writer: &b, Columns: frame.MaxColumns})
	for line := range strings.Lines(b.String()) {
		if len([]rune(line)) > frame.MaxColumns+1 {
			t.Errorf("%d columns: %s", len([]rune(line))-1, line)
		}
	}
	order := []string{"STAGE", "XDP", "IP_RPFILTER", "NO_SOCKET", "socket", "egress", "total", "\nnot in the total:\n", "duplicate", "veth0@1", "unclear", "harmless", "missed", "@1 is network namespace 4026532501: pod default/web\n",
		"not in the total: TCP_LISTEN_OVERFLOW 36, all interfaces: long_", "TCP_LISTEN_OVERFLOW: ", "IP_RPFILTER: ", "NO_SOCKET: ",
		"netdev_max_backlog", "netdev_budget",
		"unexplained: long_", "unconfirmed: long_", "the kernel has no counter for: NO_SOCKET 7,\n  long_"}
	rest := b.String()
	for _, words := range order {
		_, after, found := strings.Cut(rest, words)
		if !found {
			t.Fatalf("no %q after what comes before it:\n%s", words, b.String())
		}
		rest = after
	}
	var object struct{ Duplicates []struct{ Pod string } }
	raw, err := json.Marshal(NewDropsReport(&DropsOptions{pods: map[uint32]string{4026532501: "default/web"}}, "", i))
	if err = cmp.Or(err, json.Unmarshal(raw, &object)); err != nil || object.Duplicates[0].Pod != "default/web" {
		t.Errorf("%v: %s", err, raw)
	}
	r := NewDropsReport(new(DropsOptions), "eth0", i)
	if r.Total.Packets != 1e11+14 || len(r.Losses) != 5 || r.Harmless != nil || r.Softnet != now.Softnet {
		t.Errorf("%+v", r)
	}
}

// Below the table is what TCP has sent again, and why.
func TestRetransmits(t *testing.T) {
	t.Parallel()
	queue := drops.Loss{Stage: drops.Egress, Reason: "QDISC_DROP", Where: "__dev_queue_xmit", Device: "eth0"}
	for _, test := range []struct {
		iface string
		r     drops.Retransmits
		want  string
	}{
		{"", drops.Retransmits{}, "retransmitted 0: 0 lost here; 0 not lost on this host\n"},
		{"", drops.Retransmits{Segments: 271, Elsewhere: 2, Lost: map[drops.Loss]drops.Tally{queue: {Packets: 269}}},
			"retransmitted 271: 269 lost here, QDISC_DROP at eth0; 2 not lost on this host\n"},
		{"", drops.Retransmits{Segments: 21, Unknown: 3, Lost: map[drops.Loss]drops.Tally{
			queue: {Packets: 9},
			{Stage: drops.XDP, Reason: "drop", Where: "do_xdp_generic", Device: "vb", Netns: 4026532501}: {Packets: 7},
			{Stage: drops.Stack, Reason: "NOT_SPECIFIED", Where: "sk_filter"}:                            {Packets: 1},
			{Stage: drops.Stack, Reason: "NOT_SPECIFIED", Where: "sk_filter", Device: "?"}:               {Packets: 1},
		}},
			"retransmitted 21: 18 lost here: QDISC_DROP at eth0 9, XDP drop at vb@1 7, sk_filter 2;\n  0 not lost on this host; 3 not known\n"},
		{"eth0", drops.Retransmits{Segments: 2, Elsewhere: 1, Lost: map[drops.Loss]drops.Tally{{Reason: "NETFILTER_DROP"}: {Packets: 1}}},
			"retransmitted 2: 1 lost here, NETFILTER_DROP at eth0; 1 not lost at eth0\n"},
	} {
		var b strings.Builder
		newRetransmits(new(DropsOptions), dropsInterval{Now: drops.Counts{Retransmits: &test.r}, Took: time.Second}).write(&b, test.iface, new(namespaces))
		if b.String() != test.want {
			t.Errorf("%s want\n%s", b.String(), test.want)
		}
	}
}

// The table of flows has the largest of each stage and the other losses of each stage, so that its
// packets are the total, and never a line that is too long.
func TestFlowTable(t *testing.T) {
	t.Parallel()
	wide := meter.Flow{
		Class:       meter.IPv6(58),
		Source:      netip.MustParseAddrPort("[2001:db8:1111:2222:3333:4444:5555:6666]:65535"),
		Destination: netip.MustParseAddrPort("[2001:db8:1111:2222:3333:4444:5555:7777]:65535"),
	}
	short := meter.Flow{Class: meter.IPv4(17), Source: netip.MustParseAddrPort("192.0.2.1:1000"), Destination: netip.MustParseAddrPort("192.0.2.2:9")}
	counts := func(packets uint64, e ...meter.FlowEntry) (c drops.Counts) {
		c.Losses = map[drops.Loss]drops.Tally{
			{Stage: drops.Stack, Reason: "NOT_SPECIFIED", Where: "ip_rcv"}: {Packets: packets, Bytes: packets},
			{Stage: drops.XDP, Reason: "drop"}:                             {Packets: 3},
		}
		c.Flows.Flows = [][]meter.FlowBucket{{{Entries: e}}}
		return c
	}
	entry := func(f meter.Flow, packets, most uint64) meter.FlowEntry {
		return meter.FlowEntry{Flow: f, Counted: meter.Tally{Packets: packets, Bytes: packets}, Error: meter.Tally{Packets: most, Bytes: most}}
	}
	for _, test := range []struct {
		name string
		now  drops.Counts
		want string // of the table of flows
	}{
		{"exact", counts(50, entry(short, 40, 0)), `
STAGE  FLOW   FROM            TO           REASON         PACKETS  PACKETS/S
XDP    other                                                    3         3
stack  udp    192.0.2.1:1000  192.0.2.2:9  NOT_SPECIFIED       40        40
stack  other                                                   10        10
`},
		{"bounded", counts(50, entry(short, 40, 5)), `
STAGE  FLOW   FROM            TO           REASON         PACKETS  AT MOST  PACKETS/S
XDP    other                                                    3                  3
stack  udp    192.0.2.1:1000  192.0.2.2:9  NOT_SPECIFIED       40      45         40
stack  other                                                   10                 10
`},
		{"wide", counts(1e15, entry(wide, 1e15-1, 1e15)), ""},
	} {
		var b strings.Builder
		r := NewDropsReport(&DropsOptions{flows: 2}, "eth0", dropsInterval{Now: test.now, Took: time.Second, Elapsed: time.Second})
		r.WriteTable(&frame.Page{Writer: &b, Columns: frame.MaxColumns})
		for line := range strings.Lines(b.String()) {
			if len([]rune(line)) > frame.MaxColumns+1 {
				t.Errorf("%s: %d columns: %s", test.name, len([]rune(line))-1, line)
			}
		}
		if !strings.Contains(b.String(), test.want) {
			t.Errorf("%s:\n%s\nwant\n%s", test.name, b.String(), test.want)
		}
		sum := uint64(0)
		for _, f := range r.Flows {
			sum += f.Packets
		}
		for _, o := range r.Other {
			sum += o.Packets
		}
		if sum != r.Total.Packets {
			t.Errorf("%s: %d packets of flows and others, %d in all", test.name, sum, r.Total.Packets)
		}
	}
}

// Each advice is for a reason that comes before no shorter one, fits in a line, and names the
// interface. The one for most packets comes first.
func TestAdvice(t *testing.T) {
	t.Parallel()
	cause := func(reason, where string, packets uint64) drops.LossRate {
		return drops.LossRate{Loss: drops.Loss{Reason: reason, Where: where}, Rate: meter.Rate{Packets: packets}}
	}
	const longest = "abcdefghijklmno"
	for i, a := range advice {
		lines := adviceFor([]drops.LossRate{cause(a.reason, a.where, 1)}, longest, i%2 == 0)
		if len(lines) != 1 || adviceIndex(drops.Loss{Reason: a.reason, Where: a.where}) != i || strings.Contains(lines[0], "NIC") != strings.Contains(a.reason, "NIC") {
			t.Errorf("%s in %q has another advice: %q", a.reason, a.where, lines)
		}
		if n := len(lines[0]); n > frame.MaxColumns {
			t.Errorf("%s: %d columns", lines[0], n)
		}
	}
	got := adviceFor([]drops.LossRate{
		cause("NO_SOCKET", "tcp_v4_rcv", 1), cause("redirect: no such device", "", 7), cause("NO_SOCKET", "__udp4_lib_rcv", 3), cause("new", "", 9),
		cause("QDISC_DROP", "", 5), cause("QDISC_CONGESTED", "", 1), cause("NOT_SPECIFIED", "dst_discard", 2), cause("redirect: network is down", "to eth1", 1),
	}, "eth0", false)
	want := []string{
		"redirect: no such device: xdpcap monitor", "QDISC_DROP, QDISC_CONGESTED: queue full, or the link is down: tc -s qdisc show dev eth0, ip link",
		"NO_SOCKET: nobody", "dst_discard: a route that refuses", "redirect: network is down: the target is down: ip link set eth1 up",
	}
	if len(got) != len(want) {
		t.Fatalf("%q", got)
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("%q, want %q", got[i], want[i])
		}
	}
}

// Where the program cannot be traced, no advice names a command that would trace it.
func TestUntracedAdvice(t *testing.T) {
	t.Parallel()
	const see, filter = "drop: the program decided so: xdpcap cannot trace it here, see docs/tracing.md", "drop: a filter tells whether a flow is among them: xdpcap drops -i eth0 'udp port 53'"
	drop := map[drops.Loss]drops.Tally{{Stage: drops.XDP, Reason: "drop", Where: "firewall"}: {Packets: 1}}
	for _, test := range []struct {
		now    drops.Counts
		filter string
		want   []string
	}{
		{drops.Counts{Losses: drop, Freed: true}, "", []string{"drop: the program decided so: xdpcap -i eth0 --rx-capture exit shows the packets"}},
		{drops.Counts{Losses: drop, Untraced: errors.New("refused")}, "", []string{see}},
		{drops.Counts{Losses: drop, Untraced: errors.New("refused"), Freed: true}, "", []string{see, filter}},
		{drops.Counts{Losses: drop, Untraced: errors.New("refused"), Freed: true}, "udp", []string{see}},
		{drops.Counts{Untraced: errors.New("refused"), Freed: true}, "", nil},
	} {
		var o DropsOptions
		o.filter.Text = test.filter
		r := NewDropsReport(&o, "eth0", dropsInterval{Now: test.now, Took: time.Second, Elapsed: time.Second})
		var b strings.Builder
		r.WriteTable(&b)
		var got []string
		for line := range strings.Lines(b.String()) {
			if strings.HasPrefix(line, "drop: ") {
				got = append(got, strings.TrimSpace(line))
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}

// Each culprit has a line, that of most packets first. A loss with a rule needs no advice, and
// several losses with the same culprit have one line.
func TestCulprits(t *testing.T) {
	t.Parallel()
	rule := drops.Evidence{Text: "nft inet filter input, handle 4: udp dport 9 drop", Counter: "counter of the rule", Packets: 50, Rule: "udp dport 9 drop"}
	here, there := drops.Loss{Stage: drops.Stack, Reason: "NETFILTER_DROP", Device: "eth1"}, drops.Loss{Stage: drops.Stack, Reason: "NETFILTER_DROP", Device: "eth2"}
	full := drops.Loss{Stage: drops.Socket, Reason: "SOCKET_RCVBUFF"}
	now := drops.Counts{
		Losses: map[drops.Loss]drops.Tally{here: {Packets: 20}, there: {Packets: 10}, full: {Packets: 70}},
		Evidence: map[drops.Loss][]drops.Evidence{
			here: {rule, {Text: "unknown"}}, there: {rule},
			full: {{Text: "dnsmasq[1656] :53, receive buffer 212 KiB", Counter: "drops of the socket", Packets: 70, Process: "dnsmasq[1656]"}},
		},
	}
	for iface, all := range map[string]string{"": "", "eth0": ", all interfaces"} {
		r := NewDropsReport(new(DropsOptions), iface, dropsInterval{Now: now, Took: time.Second, Elapsed: time.Second})
		var b strings.Builder
		r.WriteTable(&b)
		_, got, _ := strings.Cut(b.String(), "total ")
		_, got, _ = strings.Cut(got, "\n")
		want := "SOCKET_RCVBUFF 70" + all + ": dnsmasq[1656] :53, receive buffer 212 KiB\n" +
			"NETFILTER_DROP 50" + all + ": nft inet filter input, handle 4: udp dport 9 drop\n" +
			"NETFILTER_DROP: unknown\n" +
			"SOCKET_RCVBUFF: the application reads too slowly: a larger SO_RCVBUF (net.core.rmem_max)\n"
		if got != want {
			t.Errorf("%s\nwant\n%s", got, want)
		}
		if l := r.Losses[0]; l.Reason != "NETFILTER_DROP" || l.Evidence[0] != rule || l.Advice == "" {
			t.Errorf("%+v", l)
		}
	}
}

// WHERE is as wide as the other columns allow.
func TestWideWhere(t *testing.T) {
	t.Parallel()
	const where = "a-web-server[1234567] :443, backlog 4096"
	now := drops.Counts{Losses: map[drops.Loss]drops.Tally{{Stage: drops.Socket, Reason: "TCP_LISTEN_OVERFLOW", Where: where}: {Packets: 36}}}
	var b strings.Builder
	NewDropsReport(new(DropsOptions), "", dropsInterval{Now: now, Took: time.Second, Elapsed: time.Second}).WriteTable(&b)
	if !strings.Contains(b.String(), " "+where+" ") {
		t.Error(b.String())
	}
}

// With --check, it is said that the kernel's counters agree; without, nothing is.
func TestRemainder(t *testing.T) {
	t.Parallel()
	for _, check := range []*drops.Remainder{nil, {}} {
		var b strings.Builder
		NewDropsReport(new(DropsOptions), "", dropsInterval{Now: drops.Counts{Check: check}, Took: time.Second, Elapsed: time.Second}).WriteTable(&b)
		if agrees := strings.HasSuffix(b.String(), "\nthe kernel's counters agree\n"); agrees != (check != nil) {
			t.Error(b.String())
		}
	}
}
