package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/capture/stream"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/metrics"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares with a file in testdata, and checks that a line fits into maxColumns.
func golden(t *testing.T, name, got string) {
	t.Helper()
	for line := range strings.Lines(got) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > frame.MaxColumns && !strings.HasSuffix(name, ".json") {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Error(diff)
	}
}

// most is larger than anything that is ever counted: more bytes than 400 Gbit/s make in a year.
const most = 9_999_999_999_999_999_999

// intervalOf is from one snapshot to another two seconds later.
func intervalOf[S any](before, now S) meter.Interval[S] {
	return meter.Interval[S]{Before: before, Now: now, End: time.Unix(1e9, 0), Took: 2 * time.Second, Elapsed: time.Minute}
}

func actionCounts(scale uint64) meter.ActionCounts {
	c := make(meter.ActionCounts, 3) // two queues and the one for all others
	for q := range c {
		c[q] = make([]meter.VerdictTallies, 2)
		for cpu := range c[q] {
			for v := range c[q][cpu] {
				n := scale * uint64(v+10*cpu+100*q)
				c[q][cpu][v] = meter.Tally{Packets: n, Bytes: 64 * n}
			}
		}
	}
	return c
}

func widestActions() meter.ActionCounts {
	c := meter.ActionCounts{make([]meter.VerdictTallies, 100)}
	for cpu := range c[0] {
		c[0][cpu][xdp.UnknownVerdict] = meter.Tally{Packets: most / 100, Bytes: most / 100}
	}
	return c
}

func TestStatsTables(t *testing.T) {
	for _, test := range []struct {
		name     string
		interval meter.Interval[meter.ActionCounts]
		o        statsOptions
	}{
		{"stats", intervalOf(actionCounts(1000), actionCounts(1_500_000)), statsOptions{}},
		{"stats-all", intervalOf(actionCounts(1), actionCounts(3)), statsOptions{perQueue: true, counterOptions: counterOptions{perCPU: true}}},
		{"stats-nothing", intervalOf[meter.ActionCounts](nil, nil), statsOptions{perQueue: true, counterOptions: counterOptions{perCPU: true}}},
		{"stats-widest", intervalOf(nil, widestActions()), statsOptions{counterOptions: counterOptions{perCPU: true}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newStatsReport(&test.o, "rx0", test.interval)
			checkReport(t, test.name, r)
		})
	}
}

func flowOf(class meter.Class, from, to string) meter.Flow {
	return meter.Flow{Class: class, Source: netip.MustParseAddrPort(from), Destination: netip.MustParseAddrPort(to)}
}

var (
	oldFlow   = flowOf(meter.IPv4(6), "192.0.2.1:40001", "192.0.2.2:443")
	wideFlow  = flowOf(meter.IPv6(60), "[2001:db8:1111:2222:3333:4444:5555:6666]:65535", "[2001:db8:1111:2222:3333:4444:5555:7777]:65535")
	quietFlow = flowOf(meter.IPv4(1), "192.0.2.1:0", "192.0.2.2:0")
	reborn    = flowOf(meter.IPv4(17), "192.0.2.1:5", "192.0.2.2:6")
)

// flowsOf is a table of one CPU with one bucket.
func flowsOf(entries ...meter.FlowEntry) [][]meter.FlowBucket {
	return [][]meter.FlowBucket{{{Entries: entries}}}
}

func protocolCounts(scale uint64) meter.ProtocolCounts {
	tally := func(n uint64) meter.Tally { return meter.Tally{Packets: n * scale, Bytes: 100 * n * scale} }
	two := func(n uint64) []meter.Tally { return []meter.Tally{tally(n), tally(2 * n)} }
	c := meter.ProtocolCounts{
		Classes: map[meter.Class][]meter.Tally{
			meter.IPv4(6):           two(100),
			meter.IPv6(17):          two(50),
			meter.IPv4(200):         two(7),
			meter.EtherType(0x0806): two(3),
			meter.EtherType(0x88b5): two(2),
			meter.Truncated:         two(1),
		},
		Flows: flowsOf(
			meter.FlowEntry{Flow: oldFlow, Verdict: meter.NoVerdict, Counted: tally(10)},
			meter.FlowEntry{Flow: wideFlow, Verdict: meter.NoVerdict, Counted: tally(2000)},
			meter.FlowEntry{Flow: quietFlow, Verdict: meter.NoVerdict, Counted: meter.Tally{Packets: 5, Bytes: 500}},
		),
		Overflow: meter.FlowOverflow{Flows: 2 * scale, Tally: tally(4), Most: tally(1)},
	}
	for i := range c.Sizes {
		c.Sizes[i] = tally(uint64(i) * 10)
	}
	return c
}

func widestProtocols() meter.ProtocolCounts {
	perCPU := make([]meter.Tally, 1000)
	perCPU[999] = meter.Tally{Packets: most, Bytes: most}
	c := meter.ProtocolCounts{Classes: map[meter.Class][]meter.Tally{meter.EtherType(0x8863): perCPU}}
	c.Sizes[5] = meter.Tally{Packets: most, Bytes: most}
	// Nearly a terabit per second.
	all := meter.Tally{Packets: most, Bytes: 2.4e11}
	c.Flows = flowsOf(meter.FlowEntry{Flow: wideFlow, Verdict: xdp.Redirect, Counted: all, Error: all})
	c.Overflow = meter.FlowOverflow{Flows: 1e9, Tally: meter.Tally{Packets: 1e15, Bytes: most}, Most: meter.Tally{Packets: most, Bytes: most}}
	return c
}

func TestCountTables(t *testing.T) {
	// A flow that had to make room and came back.
	before, now := protocolCounts(10), protocolCounts(30)
	gone := meter.Tally{Packets: 100, Bytes: 1e9}
	addEntry := func(c meter.ProtocolCounts, e meter.FlowEntry) {
		c.Flows[0][0].Entries = append(c.Flows[0][0].Entries, e)
	}
	addEntry(before, meter.FlowEntry{Flow: reborn, Verdict: meter.NoVerdict, Counted: gone})
	addEntry(now, meter.FlowEntry{Flow: reborn, Verdict: meter.NoVerdict, Counted: meter.Tally{Packets: 2, Bytes: 1200}, Error: gone})
	decided := protocolCounts(20)
	for i := range decided.Flows[0][0].Entries {
		decided.Flows[0][0].Entries[i].Verdict = xdp.Verdict(i)
	}
	traced := &xdp.Program{ID: 7, Name: "firewall"}
	everything := countOptions{sizes: true, flows: 3, counterOptions: counterOptions{perCPU: true}}
	for _, test := range []struct {
		name     string
		interval meter.Interval[meter.ProtocolCounts]
		o        countOptions
		traced   *xdp.Program
	}{
		{"count", intervalOf(before, now), countOptions{}, nil},
		{"count-all", intervalOf(before, now), everything, nil},
		{"count-verdicts", intervalOf(meter.ProtocolCounts{}, decided), countOptions{flows: 3, verdicts: []xdp.Verdict{xdp.Aborted, xdp.Drop, xdp.Pass}}, traced},
		{"count-nothing", intervalOf(meter.ProtocolCounts{}, meter.ProtocolCounts{}), everything, nil},
		{"count-widest", intervalOf(meter.ProtocolCounts{}, widestProtocols()), everything, traced},
	} {
		t.Run(test.name, func(t *testing.T) {
			checkReport(t, test.name, newCountReport(&test.o, capture.In, "rx0", test.traced, test.interval))
		})
	}
}

// checkReport compares the table and the object with the golden files.
func checkReport(t *testing.T, name string, r report) {
	t.Helper()
	var out bytes.Buffer
	r.writeTable(&out)
	golden(t, name+".txt", out.String())
	text, err := json.MarshalIndent(r.object(), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(name, "-widest") {
		golden(t, name+".json", string(text)+"\n")
	}
}

// A title is cut, whatever the names in it are.
func TestTitleWidth(t *testing.T) {
	c := (&fakeMeter{name: strings.Repeat("long", 40)}).counters()
	title, _, _ := strings.Cut(string(c.block("total", meter.Interval[uint64]{Took: time.Hour})), "\n")
	if n := utf8.RuneCountInString(title); n != frame.MaxColumns {
		t.Errorf("%d columns: %s", n, title)
	}
}

// Whatever the numbers and the widths are, there is something to print.
func TestWidths(t *testing.T) {
	for _, columns := range []int{-1, 0, 1, 2, 3, 4, 1 << 20} {
		for _, s := range []string{"", "a", "ab", "abcdef"} {
			for what, short := range map[string]string{"end": frame.Shorten(s, columns), "middle": frame.ShortenMiddle(s, columns)} {
				if n := utf8.RuneCountInString(short); n > max(columns, 0) || n < min(len(s), columns) {
					t.Errorf("%q with %d columns, cut at its %s: %q", s, columns, what, short)
				}
			}
		}
	}
	for _, test := range []struct {
		n, most uint64
		length  int
	}{
		{0, 0, 0}, {1, 0, barWidth}, {0, 1, 0}, {1, 1, barWidth}, {1, most, 1}, {most, most, barWidth}, {most / 2, most, barWidth / 2},
	} {
		got := bar(test.n, test.most)
		if n := strings.Count(got, "#"); n != test.length || len(got) != barWidth {
			t.Errorf("%d of %d: %q, want %d of %d", test.n, test.most, got, test.length, barWidth)
		}
	}
}

// linted returns a registry with the metrics of a snapshot, which the linter has passed.
func linted[S any](t *testing.T, snapshot S, m metrics.Set[S]) *prometheus.Registry {
	t.Helper()
	r := metrics.NewRegistry(metrics.NewCollector(func() (S, error) { return snapshot, nil }, m))
	problems, err := testutil.GatherAndLint(r)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]promlint.Problem(nil), problems); diff != "" {
		t.Error(diff)
	}
	return r
}

// addMetrics notes the names and types of what a command exports.
func addMetrics[S any](t *testing.T, types map[string]string, snapshot S, m metrics.Set[S]) {
	t.Helper()
	families, err := linted(t, snapshot, m).Gather()
	if err != nil {
		t.Fatal(err)
	}
	if len(families) != len(m.All) {
		t.Errorf("%d families of %d metrics", len(families), len(m.All))
	}
	suffixes := map[string][]string{"COUNTER": {"_total"}, "HISTOGRAM": {"_seconds"}, "GAUGE": {"_seconds", "_bytes", "_clients", "_info"}}
	for _, f := range families {
		ends := func(suffix string) bool { return strings.HasSuffix(f.GetName(), suffix) }
		if !slices.ContainsFunc(suffixes[f.GetType().String()], ends) || !strings.HasPrefix(f.GetName(), "xdpcap_") || f.GetHelp() == "" {
			t.Errorf("%v", f)
		}
		types[f.GetName()] = f.GetType().String()
	}
}

// allMetrics are the names and types of what all commands export.
func allMetrics(t *testing.T) map[string]string {
	t.Helper()
	types := make(map[string]string)
	for _, perCPU := range []bool{false, true} {
		every := counterOptions{perCPU: perCPU}
		for _, perQueue := range []bool{false, true} {
			addMetrics(t, types, actionCounts(2), statsMetrics(&statsOptions{perQueue: perQueue, counterOptions: every}, "rx0"))
		}
		addMetrics(t, types, protocolCounts(2), countMetrics(&countOptions{sizes: true, flows: 5, counterOptions: every}, capture.In, "rx0"))
		addMetrics(t, types, eventCounts(2), monitorMetrics(&monitor{o: &monitorOptions{counterOptions: every}, iface: &xdp.Interface{Name: "rx0"}}))
	}
	addMetrics(t, types, observed(), latencyMetrics("rx0"))
	addMetrics(t, types, meter.RuntimeCounts{Runs: 3}, runtimeMetrics("rx0"))
	addMetrics(t, types, captureReading{accounts: make(capture.Accounts, 2), clients: &stream.ServerAccount{}, outputs: []outputSummary{{Output: "-"}}}, captureMetrics(twoSources, capture.TransportRing, time.Now()))
	return types
}

func TestMetrics(t *testing.T) {
	const counter, histogram, gauge = "COUNTER", "HISTOGRAM", "GAUGE"
	want := map[string]string{
		"xdpcap_capture_info":                     gauge,
		"xdpcap_capture_start_time_seconds":       gauge,
		"xdpcap_captured_bytes_total":             counter,
		"xdpcap_captured_packets_total":           counter,
		"xdpcap_clients_lost_packets_total":       counter,
		"xdpcap_clients_refused_total":            counter,
		"xdpcap_clients_total":                    counter,
		"xdpcap_connected_clients":                gauge,
		"xdpcap_filtered_out_packets_total":       counter,
		"xdpcap_flow_evicted_bytes_total":         counter,
		"xdpcap_flow_evictions_total":             counter,
		"xdpcap_flow_missed_bytes":                gauge,
		"xdpcap_invalid_packets_total":            counter,
		"xdpcap_latency_lost_total":               counter,
		"xdpcap_latency_seconds":                  histogram,
		"xdpcap_lost_packets_total":               counter,
		"xdpcap_not_recorded_packets_total":       counter,
		"xdpcap_not_sampled_packets_total":        counter,
		"xdpcap_not_taken_packets_total":          counter,
		"xdpcap_output_captured_bytes_total":      counter,
		"xdpcap_output_captured_packets_total":    counter,
		"xdpcap_output_file_bytes":                gauge,
		"xdpcap_output_not_taken_packets_total":   counter,
		"xdpcap_program_run_seconds_total":        counter,
		"xdpcap_program_runs_total":               counter,
		"xdpcap_protocol_bytes_total":             counter,
		"xdpcap_protocol_packets_total":           counter,
		"xdpcap_seen_packets_total":               counter,
		"xdpcap_size_bytes_total":                 counter,
		"xdpcap_size_packets_total":               counter,
		"xdpcap_tracepoint_cpumap_sched_total":    counter,
		"xdpcap_tracepoint_cpumap_verdicts_total": counter,
		"xdpcap_tracepoint_drops_total":           counter,
		"xdpcap_tracepoint_events_total":          counter,
		"xdpcap_tracepoint_missed_total":          counter,
		"xdpcap_tracepoint_packets_total":         counter,
		"xdpcap_verdict_bytes_total":              counter,
		"xdpcap_verdict_packets_total":            counter,
	}
	if diff := cmp.Diff(want, allMetrics(t)); diff != "" {
		t.Error(diff)
	}
}

// However the labels divide the packets, the sum over all of them is what was counted.
func TestMetricValues(t *testing.T) {
	for _, o := range []statsOptions{
		{}, {perQueue: true}, {counterOptions: counterOptions{perCPU: true}}, {perQueue: true, counterOptions: counterOptions{perCPU: true}},
	} {
		families, err := linted(t, actionCounts(2), statsMetrics(&o, "rx0")).Gather()
		if err != nil {
			t.Fatal(err)
		}
		drops := 0.0
		for _, f := range families {
			for _, metric := range f.GetMetric() {
				for _, l := range metric.GetLabel() {
					if f.GetName() == "xdpcap_verdict_packets_total" && l.GetName() == "verdict" && l.GetValue() == "drop" {
						drops += metric.GetCounter().GetValue()
					}
				}
			}
		}
		if want := actionCounts(2).Total()[xdp.Drop].Packets; drops != float64(want) {
			t.Errorf("%+v: %v drops, want %d", o, drops, want)
		}
	}
}

// Of many queues and CPUs, those that have seen no packet are not exported.
func TestMetricsWithoutZeros(t *testing.T) {
	const cpus = 64
	c := meter.ActionCounts{make([]meter.VerdictTallies, cpus), make([]meter.VerdictTallies, cpus), make([]meter.VerdictTallies, cpus)}
	c[1][3][xdp.Drop] = meter.Tally{Packets: 1, Bytes: 64}
	for _, perCPU := range []bool{false, true} {
		for _, perQueue := range []bool{false, true} {
			o := statsOptions{perQueue: perQueue, counterOptions: counterOptions{perCPU: perCPU}}
			families, err := linted(t, c, statsMetrics(&o, "rx0")).Gather()
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range families {
				if n := len(f.GetMetric()); n != xdp.VerdictSlots {
					t.Errorf("per CPU %v, per queue %v: %d of %s, want one for each verdict", perCPU, perQueue, n, f.GetName())
				}
			}
		}
	}
}

// An interface's name may have any bytes, but a label must be UTF-8. Every name becomes a label,
// and different names become different labels.
func TestMetricNames(t *testing.T) {
	names := []string{"rx0", "\x1b[2J", "\xff", `\xff`, `\\xff`, "\xff\xfe", "é", "\u0085"}
	labels := make(map[string]bool)
	for _, name := range names {
		c := meter.EventCounts{Cases: map[meter.Case][]meter.EventCount{}}
		for _, to := range names {
			c.Cases[meter.Case{Event: meter.DevmapXmit, From: name, To: to}] = []meter.EventCount{{Events: 1}}
		}
		r := metrics.NewRegistry(metrics.NewCollector(func() (meter.EventCounts, error) { return c, nil }, monitorMetrics(&monitor{o: &monitorOptions{}, iface: &xdp.Interface{Name: name}})))
		families, err := r.Gather()
		if err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		for _, f := range families {
			if want := len(names); f.GetName() == "xdpcap_tracepoint_events_total" && len(f.GetMetric()) != want {
				t.Errorf("%q: %d events, want %d", name, len(f.GetMetric()), want)
			}
			for _, metric := range f.GetMetric() {
				for _, l := range metric.GetLabel() {
					if l.GetName() == "interface" {
						labels[l.GetValue()] = true
					}
				}
			}
		}
	}
	if len(labels) != len(names) {
		t.Errorf("%d labels of %d names: %v", len(labels), len(names), labels)
	}
}

// A snapshot that cannot be read is an error of the scrape, never a zero.
func TestMetricsError(t *testing.T) {
	broken := errors.New("broken")
	r := metrics.NewRegistry(metrics.NewCollector(func() (meter.RuntimeCounts, error) { return meter.RuntimeCounts{}, broken }, runtimeMetrics("rx0")))
	if families, err := r.Gather(); err == nil || !strings.Contains(err.Error(), broken.Error()) || len(families) > 0 {
		t.Errorf("%v, %v", families, err)
	}
}

// --action takes the verdicts' names, as the kernel and others write them, and no number.
func TestParseAction(t *testing.T) {
	for name, want := range map[string]xdp.Verdict{
		"pass": xdp.Pass, "xdp_pass": xdp.Pass, "drop": xdp.Drop, "XDP_DROP": xdp.Drop, "xdp_drop": xdp.Drop,
		"abort": xdp.Aborted, "aborted": xdp.Aborted, "xdp_abort": xdp.Aborted, "XDP_ABORTED": xdp.Aborted,
	} {
		if got, err := parseAction(name); got != want || err != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for _, name := range []string{"", "tx", "1", "xdp_"} {
		if got, err := parseAction(name); err == nil {
			t.Errorf("%q was taken as %v", name, got)
		}
	}
}
