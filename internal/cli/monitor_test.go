package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/metrics"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

var allEvents = []meter.Event{
	meter.Redirect, meter.RedirectErr, meter.Exception, meter.DevmapXmit, meter.BulkTx, meter.CPUMapEnqueue,
	meter.CPUMapKthread, meter.MemConnect, meter.MemDisconnect, meter.MemReturnFailed, meter.AttachFailed,
}

// eventCounts has each event n times, all on CPU 1 of 2.
func eventCounts(n uint64) meter.EventCounts {
	on1 := func(c meter.EventCount) []meter.EventCount { return []meter.EventCount{{}, c} }
	bulk := on1(meter.EventCount{Events: n, Packets: 7 * n, Drops: n})
	drop := on1(meter.EventCount{Events: n, Drops: n})
	event := on1(meter.EventCount{Events: n})
	return meter.EventCounts{Cases: map[meter.Case][]meter.EventCount{
		{Event: meter.Redirect, From: "eth0", MapID: 7}:                                   on1(meter.EventCount{Events: n, Packets: n}),
		{Event: meter.RedirectErr, From: "eth0", Errno: unix.ENETDOWN}:                    drop,
		{Event: meter.RedirectErr, From: "eth1", Errno: unix.Errno(524)}:                  drop,
		{Event: meter.Exception, From: "eth0", Verdict: xdp.UnknownVerdict}:               drop,
		{Event: meter.Exception, From: "eth0", Verdict: xdp.Aborted}:                      drop,
		{Event: meter.DevmapXmit, From: "eth0", To: "averylongname00", Errno: unix.ENXIO}: bulk,
		{Event: meter.BulkTx, From: "eth0"}:                                               bulk,
		{Event: meter.CPUMapEnqueue, MapID: 7, ToCPU: 3}:                                  bulk,
		{Event: meter.CPUMapKthread, MapID: 7}: on1(meter.EventCount{Events: n, Packets: 7 * n, Sched: n / 2,
			Passed: 3 * n, Dropped: 2 * n, Redirected: n}),
		{Event: meter.MemConnect, From: "eth0", Memory: 2}:                                                        event,
		{Event: meter.MemDisconnect, Memory: 9}:                                                                   event,
		{Event: meter.AttachFailed, Message: strings.Repeat("interface is already used by too long a name, ", 2)}: event,
	}, Missed: n - 1, Forgotten: n / 3}
}

// fakeMonitor shows counters that were made up, as if all had happened in two seconds.
func fakeMonitor(t *testing.T, perCPU bool, before, now meter.EventCounts) *monitorReport {
	t.Helper()
	m := &monitor{Tracepoints: new(meter.Tracepoints), o: &monitorOptions{counterOptions: counterOptions{perCPU: perCPU}}}
	m.iface = &xdp.Interface{Name: "eth0"}
	r := newMonitorReport(m, intervalOf(before, now))
	r.all, r.Program = allEvents, 12
	return r
}

func TestMonitorTable(t *testing.T) {
	for name, r := range map[string]*monitorReport{
		"monitor-idle":    fakeMonitor(t, false, meter.EventCounts{}, meter.EventCounts{}),
		"monitor":         fakeMonitor(t, false, eventCounts(400), eventCounts(1000)),
		"monitor-per-cpu": fakeMonitor(t, true, meter.EventCounts{}, eventCounts(3)),
		"monitor-most":    fakeMonitor(t, true, meter.EventCounts{}, eventCounts(999_999_999)),
	} {
		var out bytes.Buffer
		r.writeTable(&out)
		golden(t, name+".txt", out.String())
	}
}

// The keys are those of docs/json.md.
func TestMonitorJSON(t *testing.T) {
	var out bytes.Buffer
	if err := json.NewEncoder(&out).Encode(fakeMonitor(t, true, eventCounts(1), eventCounts(3)).object()); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "\n"); n != 1 {
		t.Errorf("%d lines", n)
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, out.Bytes(), "", " "); err != nil {
		t.Fatal(err)
	}
	golden(t, "monitor.json", indented.String())
}

func TestMonitorMetrics(t *testing.T) {
	for _, perCPU := range []bool{false, true} {
		m := &monitor{o: &monitorOptions{counterOptions: counterOptions{perCPU: perCPU}}, iface: &xdp.Interface{Name: "eth0"}}
		got := scraped(t, eventCounts(3), monitorMetrics(m))
		want := `xdpcap_tracepoint_drops_total{%sevent="xdp_redirect_err",from="eth0",interface="eth0",map_id="",reason="ENETDOWN",to="",to_cpu=""} 3`
		cpu := ""
		if perCPU {
			cpu = `cpu="1",`
		}
		if want := fmt.Sprintf(want, cpu); !strings.Contains(got, want) {
			t.Errorf("%s\nnot in\n%s", want, got)
		}
	}
}

// scraped are the lines of a scrape, one for each series.
func scraped[S any](t *testing.T, snapshot S, m metrics.Set[S]) string {
	t.Helper()
	families, err := linted(t, snapshot, m).Gather()
	if err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	for _, f := range families {
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			switch {
			case m.Counter != nil:
				fmt.Fprintf(&lines, "%s{%s} %v\n", f.GetName(), strings.Join(labels, ","), m.Counter.GetValue())
			case m.Gauge != nil:
				fmt.Fprintf(&lines, "%s{%s} %v\n", f.GetName(), strings.Join(labels, ","), m.Gauge.GetValue())
			case m.Histogram != nil:
				fmt.Fprintf(&lines, "%s{%s} %v %v", f.GetName(), strings.Join(labels, ","), m.Histogram.GetSampleCount(), m.Histogram.GetSampleSum())
				for _, b := range m.Histogram.Bucket {
					fmt.Fprintf(&lines, " %v:%v", b.GetUpperBound(), b.GetCumulativeCount())
				}
				fmt.Fprintln(&lines)
			}
		}
	}
	return lines.String()
}
