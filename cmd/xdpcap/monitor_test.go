package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/testnet"
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

// The keys are those of the README.
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
func scraped[S any](t *testing.T, snapshot S, m metricSet[S]) string {
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

// The real command counts what happens on its interface, and SIGINT prints the totals.
func TestMonitor(t *testing.T) {
	pair := testnet.MustPair(t, testnet.PairOptions{})
	receiver := testnet.MustReceiver(t, pair, xdp.Aborted, testnet.ReceiverOptions{Count: true})
	id, err := receiver.ID()
	if err != nil {
		t.Fatal(err)
	}
	tables, objects := newPipe(t), newPipe(t)
	p := listening(t, pair.Rx, tables.in, "monitor", "-i", pair.RxName, "-v", "--interval", "100ms")
	q := listening(t, pair.Rx, objects.in, "monitor", "--program", fmt.Sprint(id), "-i", pair.RxName, "--json")
	const sent = 50
	testnet.Send(t, pair, slices.Repeat([][]byte{testnet.UDPFrame(100, 0)}, sent)...)
	if stderr := p.interrupt(); !strings.Contains(stderr, "listening on xdp tracepoints of rx0") {
		t.Error(stderr)
	}
	q.interrupt()
	_, totals, ok := strings.Cut(tables.read(t), "total  xdp tracepoints of rx0, over ")
	if !ok || !strings.Contains(totals, "XDP_ABORTED rx0 [50]") {
		t.Errorf("totals %q", totals)
	}
	var last monitorReport
	lines := strings.Split(strings.TrimSpace(objects.read(t)), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil {
		t.Fatal(err)
	}
	if len(last.Events) != 1 || last.Events[0].Count != sent || last.Events[0].Drops != sent || last.Interface != "rx0" || last.Program == 0 {
		t.Errorf("%+v", last)
	}
}

// --record prints so many events and ends by itself, or without a number goes on until it is
// stopped.
func TestMonitorRecord(t *testing.T) {
	testnet.LeaveTo(t, "6.1")
	pair := testnet.MustPair(t, testnet.PairOptions{})
	v, err := testnet.AttachReceiver(pair.Rx, pair.RxName, xdp.Aborted, testnet.ReceiverOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	lines, objects, none := newPipe(t), newPipe(t), newPipe(t)
	text := listening(t, pair.Rx, lines.in, "monitor", "-i", pair.RxName, "--record", "3")
	asJSON := listening(t, pair.Rx, objects.in, "monitor", "-i", pair.RxName, "--record", "3", "--json")
	more := listening(t, pair.Rx, none.in, "monitor", "--record", "-i", pair.RxName)
	stopProcess(t, more) // what it has not printed when it is interrupted comes, too
	var frames [][]byte
	for i := range uint64(5) {
		frames = append(frames, testnet.UDPFrame(100, i))
	}
	testnet.Send(t, pair, frames...)
	more.cmd.Process.Signal(os.Interrupt)
	continueProcess(t, more)
	for _, p := range []*process{text, asJSON} {
		if status, stderr := p.wait(); status != 0 || strings.Count(stderr, "\n") != 1 {
			t.Errorf("exit status %d: %s", status, stderr)
		}
	}
	if status, stderr := more.wait(); status != 0 {
		t.Errorf("exit status %d: %s", status, stderr)
	}
	if n := strings.Count(none.read(t), "\n"); n != 5 {
		t.Errorf("%d lines of 5 events", n)
	}
	got := strings.Split(strings.TrimSpace(lines.read(t)), "\n")
	if len(got) != 3 || !strings.Contains(got[0], " xdp_exception XDP_ABORTED rx0 verdict 0 program ") {
		t.Errorf("%q", got)
	}
	d := json.NewDecoder(strings.NewReader(objects.read(t)))
	d.DisallowUnknownFields()
	for range 3 {
		var l recordLine
		if err := d.Decode(&l); err != nil {
			t.Fatal(err)
		}
		if time.Since(l.Time).Abs() > testnet.Patience || l.Program == 0 || l.Verdict == nil || *l.Verdict != 0 {
			t.Errorf("%+v", l)
		}
		l.Time, l.CPU, l.Program, l.Verdict = time.Time{}, 0, 0, nil
		want := recordLine{eventCase: eventCase{Event: "xdp_exception", Reason: "aborted", From: "rx0"}, Drops: 1}
		if diff := cmp.Diff(want, l, cmp.AllowUnexported(recordLine{})); diff != "" {
			t.Error(diff)
		}
	}
}

// Each mistake is one line and exit status 1.
func TestMonitorErrors(t *testing.T) {
	skipEmulated(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	for args, want := range map[string]string{
		"-i nosuch":                      `interface "nosuch" does not exist; there are: lo, rx0`,
		"--program nosuch":               `xdpcap: no XDP program "nosuch" is loaded: see xdpcap interfaces, or bpftool prog`,
		"--program 4294967295":           "no XDP program has the id 4294967295",
		"--record 0":                     "--record 0: must be a whole number of at least 1, or be omitted",
		"--record many":                  "--record many: must be a whole number of at least 1, or be omitted",
		"--record=2 3":                   `monitor takes no argument "3"`,
		"--record 1 --interval 2s":       "--record prints single events, and --interval is about counters",
		"--record 1 --listen 127.0.0.1:": "--listen is about counters",
		"--interval 1ms":                 "--interval 1ms: must be at least",
		"extra":                          `"extra"`,
	} {
		status, stderr := start(t, pair.Rx, nil, append([]string{"monitor"}, strings.Fields(args)...)...).wait()
		if status != 1 || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit status %d: %s", args, status, stderr)
		}
	}
}

// A pipe takes a process's output.
type pipe struct {
	in   *os.File
	file string
}

func newPipe(t *testing.T) *pipe {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "out")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return &pipe{f, f.Name()}
}

func (p *pipe) read(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(p.file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
