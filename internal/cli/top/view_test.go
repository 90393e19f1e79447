package top

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/internal/cli/clitest"
	"github.com/xdpcap/xdpcap/internal/drops"
	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// flowOf is a flow of TCP, or another protocol of IPv6.
func flowOf(class meter.Class, from, to string) meter.Flow {
	return meter.Flow{Class: class, Source: netip.MustParseAddrPort(from), Destination: netip.MustParseAddrPort(to)}
}

// after are the counters of an interface after so many seconds: eight flows of rising rates, of
// which a program drops every other one, a flow of IPv6, and ARP.
func after(seconds uint64) (p meter.ProtocolCounts, a meter.ActionCounts) {
	tally := func(packets, size uint64) meter.Tally {
		return meter.Tally{Packets: packets * seconds, Bytes: packets * size * seconds}
	}
	var bucket meter.FlowBucket
	var tcp meter.Tally
	verdicts := meter.VerdictTallies{}
	for i := range uint64(8) {
		counted, verdict := tally((i+1)*1000, 400), xdp.Pass
		if i%2 == 1 {
			verdict = xdp.Drop
		}
		flow := flowOf(meter.IPv4(6), fmt.Sprintf("10.88.0.11:4100%d", i), fmt.Sprintf("10.88.0.%d:443", i+2))
		bucket.Entries = append(bucket.Entries, meter.FlowEntry{Flow: flow, Verdict: verdict, Counted: counted})
		tcp.Add(counted)
		verdicts[verdict].Add(counted)
	}
	wide := tally(10, 1500)
	verdicts[xdp.Pass].Add(wide)
	bucket.Entries = append(bucket.Entries, meter.FlowEntry{Verdict: xdp.Pass, Counted: wide,
		Flow: flowOf(meter.IPv6(17), "[2001:db8:1111:2222:3333:4444:5555:6666]:65535", "[2001:db8:1111:2222:3333:4444:5555:7777]:65535")})
	p.Classes = map[meter.Class][]meter.Tally{meter.IPv4(6): {tcp}, meter.IPv6(17): {wide}, meter.EtherType(0x0806): {tally(1, 42)}}
	p.Sizes[3], p.Sizes[5], p.Sizes[0] = tcp, wide, tally(1, 42)
	p.Flows = [][]meter.FlowBucket{{bucket}}
	a.Queues = [][]meter.VerdictTallies{{verdicts}}
	return p, a
}

// readingOf is what the counters told in a second of a capture.
func readingOf(second uint64, name string) *reading {
	p, a := after(second)
	r := &reading{name: name, how: "tracing firewall (id 19)", traced: true}
	r.in, r.verdicts = intervalOf(meter.ProtocolCounts{}, p, second), intervalOf(meter.ActionCounts{}, a, second)
	if second > 1 {
		r.in.Before, r.verdicts.Before = after(second - 1)
	}
	if second%2 == 0 {
		r.in.Took, r.verdicts.Took = 2*time.Second, 2*time.Second // half as fast
	}
	var h meter.LatencyCounts
	for i := range 10 * int(second) {
		h.Verdicts[xdp.Pass].Observe(time.Duration(80+i%100) * time.Nanosecond)
		h.Verdicts[xdp.Drop].Observe(time.Duration(1+i%7) * time.Microsecond)
	}
	r.latency = intervalOf(r.latency.Before, h, second)
	return r
}

func intervalOf[S any](before, now S, second uint64) meter.Interval[S] {
	return meter.Interval[S]{Before: before, Now: now, Took: time.Second, Elapsed: time.Duration(second) * time.Second}
}

// readingsOf has what one interface tells, and losses.
func readingsOf(second uint64, names ...string) *readings {
	r := &readings{at: time.Date(2026, 11, 28, 16, 29, int(second), 0, time.Local)}
	for _, name := range names {
		r.interfaces = append(r.interfaces, readingOf(second, name))
	}
	lost := func(n uint64) drops.Counts {
		losing := meter.FlowEntry{Flow: flowOf(meter.IPv4(17), "10.88.0.11:41000", "10.88.0.2:9"), Counted: meter.Tally{Packets: 30 * n, Bytes: 3000 * n}}
		flows := drops.FlowCounts{FlowCounts: meter.FlowCounts{Flows: [][]meter.FlowBucket{{{Entries: []meter.FlowEntry{losing}}}}}}
		return drops.Counts{Flows: flows, Losses: map[drops.Loss]drops.Tally{
			{Stage: drops.Stack, Reason: "NO_SOCKET", Where: "__udp4_lib_rcv"}:                        {Packets: 40 * n},
			{Stage: drops.Socket, Reason: "SOCKET_RCVBUFF", Where: "udp_queue_rcv_one_skb"}:           {Packets: 4 * n},
			{Stage: drops.Card, Reason: "rx_missed", Where: "queue 3"}:                                {Packets: 2},
			{Stage: drops.XDP, Reason: "redirect: \x1b[2Jnetwork is down", Where: "firewall (id 19)"}: {Packets: n},
		}}
	}
	r.drops = intervalOf(lost(second-1), lost(second), second)
	return r
}

// modelOf has taken this many readings.
func modelOf(width, height int, seconds uint64, names ...string) *model {
	m := &model{width: width, height: height}
	for second := uint64(1); second <= seconds; second++ {
		m.update(readingsOf(second, names...), names[0]+", firewall (19)")
	}
	return m
}

func (l line) String() string {
	var b strings.Builder
	for _, s := range l {
		b.WriteString(s.text)
	}
	return b.String()
}

// text is what the screen shows. The styles are omitted.
func (m *model) text() string {
	var b strings.Builder
	for _, l := range m.lines() {
		b.WriteString(strings.TrimRight(l.String(), " ") + "\n")
	}
	return b.String()
}

// Every table at two sizes, as it is drawn.
func TestTables(t *testing.T) {
	t.Parallel()
	for _, size := range []struct{ width, height int }{{80, 24}, {200, 50}} {
		m := modelOf(size.width, size.height, 70, "vb")
		var all strings.Builder
		for k := range kinds {
			m.kind = k
			all.WriteString(m.text())
		}
		m.press("?")
		all.WriteString(m.text())
		clitest.Compare(t, fmt.Sprintf("tables-%dx%d.txt", size.width, size.height), all.String())
	}
	m := modelOf(80, 24, 5, "vb", "eth0", "eth1", "eth2", "eth3", "eth4", "eth5", "eth6", "eth7", "eth8")
	r := readingsOf(6, "vb", "eth0", "eth1", "eth2", "eth3", "eth4", "eth5", "eth6", "eth7", "eth8")
	for _, one := range r.interfaces[4:] {
		one.in = meter.Interval[meter.ProtocolCounts]{}
	}
	m.update(r, "10 interfaces")
	several := m.text()
	m.kind = interfaces
	clitest.Compare(t, "several-80x24.txt", several+m.text())
}

// Whatever the size of the window, there are as many lines as it has, and none is wider. The number
// by which the rows are sorted is in the table as long as there is any room.
func TestAnySize(t *testing.T) {
	t.Parallel()
	for width := 1; width < 130; width += 3 {
		for height := 1; height < 30; height += 4 {
			m := modelOf(width, height, 3, "vb")
			m.filter, m.paused = "tcp port 443", true
			for _, press := range []string{"f", "v", "r", "s", "d", "l", "i", "o", "End", "/", "Esc", "?"} {
				m.press(press)
				all := m.lines()
				if len(all) != height {
					t.Fatalf("%dx%d after %s: %d lines", width, height, press, len(all))
				}
				for _, l := range all {
					if n := utf8.RuneCountInString(l.String()); n > width {
						t.Fatalf("%dx%d after %s: %d columns: %s", width, height, press, n, l)
					}
				}
			}
			m.help, m.kind, m.order = false, flows, byPackets
			if titles := m.lines()[min(2, height-1)].String(); width >= 50 && height > 4 && !strings.Contains(titles, "PACKETS") {
				t.Errorf("%d columns: %s", width, titles)
			}
		}
	}
}

// What comes from programs and the kernel is no escape sequence on the terminal.
func TestEscaped(t *testing.T) {
	t.Parallel()
	m := modelOf(200, 24, 2, "vb")
	m.kind = losses
	if text := m.text(); strings.Contains(text, "\x1b") || !strings.Contains(text, `\x1b[2J`) {
		t.Errorf("%q", text)
	}
}

// The filter of every row is one, also together with the user's.
func TestRowFilters(t *testing.T) {
	t.Parallel()
	s := &sources{o: &Options{}}
	s.o.filter.Text = "greater 10 or less 5"
	n := 0
	for k, table := range readingsOf(2, "vb", "eth0").tables() {
		for _, r := range table.rows {
			n++
			text := s.filterOf(r.shows)
			if _, err := filter.CompileRaw(text, filter.Options{}); err != nil {
				t.Errorf("%d: %q: %v", k, text, err)
			}
		}
	}
	if n < 30 {
		t.Errorf("%d rows", n)
	}
	f := flowFilter(flowOf(meter.IPv4(1), "10.0.0.1:0", "10.0.0.2:0"))
	if want := "ip proto 1 and ((src host 10.0.0.1 and dst host 10.0.0.2) or (src host 10.0.0.2 and dst host 10.0.0.1))"; f != want {
		t.Errorf("%s, want %s", f, want)
	}
}
