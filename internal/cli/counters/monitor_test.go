package counters

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/cli/clitest"
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
	}, Missed: n - 1, Former: map[meter.Case]meter.EventCount{{Event: meter.Exception, From: meter.Gone}: {Events: n / 3}}}
}

// fakeMonitor shows invented counters, as if everything had happened in two seconds.
func fakeMonitor(t *testing.T, perCPU bool, before, now meter.EventCounts) *MonitorReport {
	t.Helper()
	m := &monitor{Tracepoints: new(meter.Tracepoints), o: &MonitorOptions{Options: Options{perCPU: perCPU}}}
	m.iface = "eth0"
	r := newMonitorReport(m, clitest.IntervalOf(before, now))
	r.all, r.Program = allEvents, 12
	return r
}

// The keys of the object are those of docs/json.md.
func TestMonitorReport(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]*MonitorReport{
		"monitor-idle": fakeMonitor(t, false, meter.EventCounts{}, meter.EventCounts{}),
		"monitor":      fakeMonitor(t, false, eventCounts(400), eventCounts(1000)),
		"monitor-most": fakeMonitor(t, true, meter.EventCounts{}, eventCounts(999_999_999)),
	} {
		var out bytes.Buffer
		r.WriteTable(&out)
		clitest.Golden(t, name+".txt", out.String())
	}
	clitest.CheckReport(t, "monitor-per-cpu", fakeMonitor(t, true, eventCounts(1), eventCounts(3)))
}

func TestMonitorMetrics(t *testing.T) {
	t.Parallel()
	for _, perCPU := range []bool{false, true} {
		m := (&MonitorOptions{Options: Options{perCPU: perCPU}}).Metrics("eth0")
		clitest.CheckMetrics(t, eventCounts(2), m)
		got := clitest.Scraped(t, eventCounts(3), m)
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

// An interface's name may have any bytes, but a label must be UTF-8. Every name becomes a label,
// and different names become different labels.
func TestMetricNames(t *testing.T) {
	t.Parallel()
	names := []string{"rx0", "\x1b[2J", "\xff", `\xff`, `\\xff`, "\xff\xfe", "é", "\u0085"}
	labels := make(map[string]bool)
	for _, name := range names {
		c := meter.EventCounts{Cases: map[meter.Case][]meter.EventCount{}}
		for _, to := range names {
			c.Cases[meter.Case{Event: meter.DevmapXmit, From: name, To: to}] = []meter.EventCount{{Events: 1}}
		}
		r := metrics.NewRegistry(metrics.NewCollector(func() (meter.EventCounts, error) { return c, nil }, new(MonitorOptions).Metrics(name)))
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

// A packet that was lost with a bulk is told from one that was sent.
func TestRecordOfOne(t *testing.T) {
	t.Parallel()
	for _, event := range []meter.Event{meter.DevmapXmit, meter.BulkTx, meter.CPUMapEnqueue} {
		text := func(c meter.EventCount) string {
			l := newRecordLine(meter.Record{Case: meter.Case{Event: event}, Count: c})
			return l.text(event)
		}
		sent, lost := text(meter.EventCount{Events: 1, Packets: 1}), text(meter.EventCount{Events: 1, Drops: 1})
		if strings.Contains(sent, "drops") || !strings.HasSuffix(lost, " packets 0 drops 1") {
			t.Errorf("sent: %s; lost: %s", sent, lost)
		}
	}
}
