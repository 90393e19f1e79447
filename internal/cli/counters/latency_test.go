package counters

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/cli/clitest"
	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/metrics"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// observed is a distribution of run times: passes around 100 ns, and drops of which some take much
// longer.
func observed() (c meter.LatencyCounts) {
	for i := range 1000 {
		c.Verdict(xdp.Pass).Observe(90 + time.Duration(i%30))
		c.Verdict(xdp.Drop).Observe(40 + time.Duration(i*i/20))
	}
	return c
}

// manyObserved has numbers as large as they can get, so that the table is as wide as it can get.
func manyObserved() (c meter.LatencyCounts) {
	for v := range c.Verdicts {
		for _, d := range []time.Duration{0, 1, 999_949, 999_949_999, 17 * time.Second} {
			c.Verdicts[v].Observe(d)
		}
		for range 26 { // double every count 26 times
			again := c.Verdicts[v]
			c.Verdicts[v].Add(&again)
		}
	}
	return c
}

// fakeLatency is a report about the time between two snapshots.
func fakeLatency(before, now meter.LatencyCounts, cost *meter.ProbeCost) *LatencyReport {
	r := &LatencyReport{Interface: "eth0", Program: "lb", ProgramID: 12, Method: byTrace}
	if cost != nil {
		r.Added, r.Floor = &cost.Added, &cost.Floor
	}
	r.count(clitest.IntervalOf(before, now), now.CPUs != nil)
	return r
}

// The keys of the objects are those of docs/json.md.
func TestLatencyReport(t *testing.T) {
	t.Parallel()
	perCPU := observed()
	perCPU.CPUs = make([]meter.Histogram, 4)
	perCPU.CPUs[1], perCPU.CPUs[3] = *perCPU.Verdict(xdp.Pass), *perCPU.Verdict(xdp.Drop)
	later := observed()
	for range 100 {
		later.Verdict(xdp.Drop).Observe(5 * time.Microsecond)
	}
	for name, r := range map[string]*LatencyReport{
		"latency-later":   fakeLatency(observed(), later, nil),
		"latency":         fakeLatency(meter.LatencyCounts{}, observed(), &meter.ProbeCost{Added: 62, Floor: 24}),
		"latency-idle":    fakeLatency(meter.LatencyCounts{}, meter.LatencyCounts{}, nil),
		"latency-per-cpu": fakeLatency(perCPU, perCPU, nil),
		"latency-most":    fakeLatency(observed(), manyObserved(), &meter.ProbeCost{Added: 99_999_999, Floor: 99_999_999}),
	} {
		var out bytes.Buffer
		r.WriteTable(&out)
		clitest.Golden(t, name+".txt", out.String())
	}
	twice := observed()
	for v := range twice.Verdicts {
		again := twice.Verdicts[v]
		twice.Verdicts[v].Add(&again)
	}
	clitest.CheckReport(t, "latency-twice", fakeLatency(observed(), twice, &meter.ProbeCost{Added: 62, Floor: 24}))
	clitest.CheckReport(t, "latency-kernel-stats", &RuntimeReport{
		Interface: "eth0", Program: "lb", ProgramID: 12, Method: byKernel, Runs: 3, Sum: 30, Mean: 10,
	})
	clitest.CheckReport(t, "latency-kernel-stats-widest", &RuntimeReport{
		Program: strings.Repeat("long", 30), Runs: 999_999_999_999, Rate: 1e9, Mean: 1234, IntervalMean: 1e9,
	})
}

func TestLatencyMetrics(t *testing.T) {
	t.Parallel()
	clitest.CheckMetrics(t, observed(), latencyMetrics("eth0"))
	clitest.CheckMetrics(t, meter.RuntimeCounts{Runs: 3}, RuntimeMetrics("eth0"))
	got := clitest.Scraped(t, observed(), latencyMetrics("eth0"))
	for _, want := range []string{
		`xdpcap_latency_seconds{interface="eth0",verdict="pass"} 1000 `,
		` 6.3e-08:0 1.27e-07:1000 `, // all took 90 to 119 ns
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nnot in\n%s", want, got)
		}
	}
	got = clitest.Scraped(t, meter.RuntimeCounts{Runs: 3, Time: 1500 * time.Millisecond}, RuntimeMetrics("eth0"))
	want := "xdpcap_program_run_seconds_total{interface=\"eth0\"} 1.5\nxdpcap_program_runs_total{interface=\"eth0\"} 3\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A snapshot that cannot be read is an error of the scrape, never a zero.
func TestMetricsError(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	r := metrics.NewRegistry(metrics.NewCollector(func() (meter.RuntimeCounts, error) { return meter.RuntimeCounts{}, broken }, RuntimeMetrics("rx0")))
	if families, err := r.Gather(); err == nil || !strings.Contains(err.Error(), broken.Error()) || len(families) > 0 {
		t.Errorf("%v, %v", families, err)
	}
}
