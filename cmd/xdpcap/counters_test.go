package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares with a file in testdata, and checks that a line fits into maxColumns.
func golden(t *testing.T, name, got string) {
	t.Helper()
	for line := range strings.Lines(got) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > maxColumns && !strings.HasSuffix(name, ".json") {
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

// spanOf is a snapshot two seconds after another.
func spanOf[S any](before, now S) span[S] {
	return span[S]{before: before, now: now, at: time.Unix(1e9, 0), took: 2 * time.Second, elapsed: time.Minute}
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
		name string
		span span[meter.ActionCounts]
		o    statsOptions
	}{
		{"stats", spanOf(actionCounts(1000), actionCounts(1_500_000)), statsOptions{}},
		{"stats-all", spanOf(actionCounts(1), actionCounts(3)), statsOptions{perQueue: true, meterOptions: meterOptions{perCPU: true}}},
		{"stats-nothing", spanOf[meter.ActionCounts](nil, nil), statsOptions{perQueue: true, meterOptions: meterOptions{perCPU: true}}},
		{"stats-widest", spanOf(nil, widestActions()), statsOptions{meterOptions: meterOptions{perCPU: true}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newStatsReading(&test.o, "rx0", test.span)
			checkReading(t, test.name, r)
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
		Flows: map[meter.Flow]meter.Tally{
			oldFlow: tally(10), wideFlow: tally(2000), quietFlow: {Packets: 5, Bytes: 500},
		},
		Overflow: meter.FlowOverflow{Flows: 2 * scale, Tally: tally(4)},
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
	c.Flows = map[meter.Flow]meter.Tally{wideFlow: {Packets: most, Bytes: 2.4e11}} // at nearly a terabit per second
	c.Overflow = meter.FlowOverflow{Flows: 1e9, Tally: meter.Tally{Packets: 1e15, Bytes: most}}
	return c
}

func TestCountTables(t *testing.T) {
	// A flow that was pushed out of the table and is there again.
	before, now := protocolCounts(10), protocolCounts(30)
	before.Flows[reborn], now.Flows[reborn] = meter.Tally{Packets: 100, Bytes: 1e9}, meter.Tally{Packets: 2, Bytes: 1200}
	everything := countOptions{sizes: true, flows: 3, meterOptions: meterOptions{perCPU: true}}
	for _, test := range []struct {
		name string
		span span[meter.ProtocolCounts]
		o    countOptions
	}{
		{"count", spanOf(before, now), countOptions{}},
		{"count-all", spanOf(before, now), everything},
		{"count-nothing", spanOf(meter.ProtocolCounts{}, meter.ProtocolCounts{}), everything},
		{"count-widest", spanOf(meter.ProtocolCounts{}, widestProtocols()), everything},
	} {
		t.Run(test.name, func(t *testing.T) {
			checkReading(t, test.name, newCountReading(&test.o, "rx0", test.span))
		})
	}
}

// checkReading compares the table and the object with the golden files.
func checkReading(t *testing.T, name string, r reading) {
	t.Helper()
	var out bytes.Buffer
	r.table(&out)
	golden(t, name+".txt", out.String())
	text, err := json.MarshalIndent(r.json(), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(name, "-widest") {
		golden(t, name+".json", string(text)+"\n")
	}
}

func TestBenchTable(t *testing.T) {
	r := newBenchReading([]meter.BenchResult{
		{Name: "empty", Packets: 9_999_999_999_999, Mpps: 168.32, Ns: 12.1, Spread: 0.342, Instructions: 2, HotPath: 2},
		{Name: "naive", Packets: 37115040, Mpps: 36.6, Ns: 54.75, Spread: 0.0149, Instructions: 299, HotPath: 57},
		{Name: "percpu", Packets: 37115040, Mpps: 126.78, Ns: 15.8, Instructions: 329, HotPath: 39, Hardware: true, Cycles: 40.25, NativeInstructions: 120.4},
		{Name: "ultra", Packets: 37115040, Mpps: 12634.5, Ns: 1234.5, Spread: 10.25, Instructions: 334},
	}, []int{0, 1})
	var out bytes.Buffer
	r.table(&out)
	golden(t, "bench.txt", out.String())
	text, _ := json.MarshalIndent(r, "", " ")
	golden(t, "bench.json", string(text)+"\n")
}

// A title is cut, whatever the names in it are.
func TestTitleWidth(t *testing.T) {
	m := &fakeMeter{name: strings.Repeat("long", 40)}
	r := &meterRun[uint64]{meter: m}
	title, _, _ := strings.Cut(string(r.block("total", span[uint64]{took: time.Hour})), "\n")
	if n := utf8.RuneCountInString(title); n != maxColumns {
		t.Errorf("%d columns: %s", n, title)
	}
}

// fixedCounters is a snapshot that Prometheus looks at.
type fixedCounters[S any] struct {
	fakeMeter
	now       S
	describes func() []*prometheus.Desc
	collects  func(S, chan<- prometheus.Metric)
}

func (c *fixedCounters[S]) read() (S, error)                           { return c.now, nil }
func (c *fixedCounters[S]) reading(span[S]) reading                    { return nil }
func (c *fixedCounters[S]) describe() []*prometheus.Desc               { return c.describes() }
func (c *fixedCounters[S]) collect(now S, ch chan<- prometheus.Metric) { c.collects(now, ch) }

// addMetrics notes the names and types of what a command exports, after the linter has passed it.
func addMetrics[S any](t *testing.T, types map[string]string, now S, describe func() []*prometheus.Desc,
	collect func(S, chan<- prometheus.Metric)) {
	t.Helper()
	r := newRegistry[S](&fixedCounters[S]{now: now, describes: describe, collects: collect})
	problems, err := testutil.GatherAndLint(r)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]promlint.Problem(nil), problems); diff != "" {
		t.Error(diff)
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	suffixes := map[string]string{"COUNTER": "_total", "HISTOGRAM": "_seconds"}
	for _, f := range families {
		suffix, known := suffixes[f.GetType().String()]
		if !known || !strings.HasPrefix(f.GetName(), "xdpcap_") || !strings.HasSuffix(f.GetName(), suffix) || f.GetHelp() == "" {
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
		every := meterOptions{perCPU: perCPU}
		for _, perQueue := range []bool{false, true} {
			stats := newStatsMetrics(&statsOptions{iface: "rx0", perQueue: perQueue, meterOptions: every})
			descs := func() []*prometheus.Desc { return []*prometheus.Desc{stats.packets, stats.bytes} }
			addMetrics(t, types, actionCounts(2), descs, stats.collect)
		}
		count := newCountMetrics(&countOptions{iface: "rx0", sizes: true, flows: 5, meterOptions: every})
		addMetrics(t, types, protocolCounts(2), count.describe, count.collect)
		monitor := newMonitorMetrics(&monitorOptions{iface: "rx0", meterOptions: every})
		addMetrics(t, types, eventCounts(2), monitor.descs, monitor.collect)
	}
	latency := newLatencyMetrics("rx0")
	addMetrics(t, types, observed(), latency.descs, latency.collect)
	kernel := newRunTimeMetrics("rx0")
	addMetrics(t, types, meter.RuntimeCounts{Runs: 3}, kernel.descs, kernel.collect)
	return types
}

func TestMetrics(t *testing.T) {
	const counter, histogram = "COUNTER", "HISTOGRAM"
	want := map[string]string{
		"xdpcap_flow_evicted_bytes_total":         counter,
		"xdpcap_flow_evictions_total":             counter,
		"xdpcap_latency_lost_total":               counter,
		"xdpcap_latency_seconds":                  histogram,
		"xdpcap_program_run_seconds_total":        counter,
		"xdpcap_program_runs_total":               counter,
		"xdpcap_protocol_bytes_total":             counter,
		"xdpcap_protocol_packets_total":           counter,
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

// The values, with labels that tell everything apart: the sum over them is what was counted.
func TestMetricValues(t *testing.T) {
	for _, o := range []statsOptions{
		{}, {perQueue: true}, {meterOptions: meterOptions{perCPU: true}}, {perQueue: true, meterOptions: meterOptions{perCPU: true}},
	} {
		m := newStatsMetrics(&o)
		families, err := newRegistry[meter.ActionCounts](&fixedCounters[meter.ActionCounts]{
			now: actionCounts(2), collects: m.collect,
			describes: func() []*prometheus.Desc { return []*prometheus.Desc{m.packets, m.bytes} },
		}).Gather()
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
