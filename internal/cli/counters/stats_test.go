package counters

import (
	"strconv"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/internal/cli/clitest"
	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

func actionCounts(scale uint64) meter.ActionCounts {
	c := meter.ActionCounts{Queues: make([][]meter.VerdictTallies, 3)} // two queues and the one for all others
	for q := range c.Queues {
		c.Queues[q] = make([]meter.VerdictTallies, 2)
		for cpu := range c.Queues[q] {
			for v := range c.Queues[q][cpu] {
				n := scale * uint64(v+10*cpu+100*q)
				c.Queues[q][cpu][v] = meter.Tally{Packets: n, Bytes: 64 * n}
			}
		}
	}
	return c
}

// withReasons adds the reasons that a program gave for half of what it dropped.
func withReasons(c meter.ActionCounts) meter.ActionCounts {
	half := func(v xdp.Verdict) meter.Tally {
		t := c.Total()[v]
		return meter.Tally{Packets: t.Packets / 2, Bytes: t.Bytes / 2}
	}
	c.Reasons = map[meter.VerdictReason]meter.Tally{
		{Verdict: xdp.Drop, Reason: "REASON_BLOCKED"}:      half(xdp.Drop),
		{Verdict: xdp.Drop}:                                half(xdp.Drop),
		{Verdict: xdp.Aborted, Reason: "77"}:               half(xdp.Aborted),
		{Verdict: xdp.Aborted, Reason: meter.OtherReasons}: half(xdp.Aborted),
	}
	return c
}

func widestActions() meter.ActionCounts {
	c := meter.ActionCounts{Queues: [][]meter.VerdictTallies{make([]meter.VerdictTallies, 100)}}
	for cpu := range c.Queues[0] {
		c.Queues[0][cpu][xdp.UnknownVerdict] = meter.Tally{Packets: clitest.Most / 100, Bytes: clitest.Most / 100}
	}
	return c
}

func TestStatsTables(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		interval meter.Interval[meter.ActionCounts]
		o        StatsOptions
	}{
		{"stats", clitest.IntervalOf(actionCounts(1000), actionCounts(1_500_000)), StatsOptions{}},
		{"stats-all", clitest.IntervalOf(actionCounts(1), actionCounts(3)), StatsOptions{perQueue: true, Options: Options{perCPU: true}}},
		{"stats-reasons", clitest.IntervalOf(withReasons(actionCounts(1)), withReasons(actionCounts(3))), StatsOptions{}},
		{"stats-nothing", clitest.IntervalOf(meter.ActionCounts{}, meter.ActionCounts{}), StatsOptions{perQueue: true, Options: Options{perCPU: true}}},
		{"stats-widest", clitest.IntervalOf(meter.ActionCounts{}, widestActions()), StatsOptions{Options: Options{perCPU: true}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newStatsReport(&test.o, "rx0", test.interval)
			clitest.CheckReport(t, test.name, r)
		})
	}
}

// Every packet is in one series, whatever the labels are, and queues and CPUs that have seen no
// packet have none.
func TestStatsMetrics(t *testing.T) {
	t.Parallel()
	const cpus = 64
	few := meter.ActionCounts{Queues: make([][]meter.VerdictTallies, 3)}
	for q := range few.Queues {
		few.Queues[q] = make([]meter.VerdictTallies, cpus)
	}
	few.Queues[1][3][xdp.Drop] = meter.Tally{Packets: 1, Bytes: 64}
	for _, o := range []StatsOptions{
		{}, {perQueue: true}, {Options: Options{perCPU: true}}, {perQueue: true, Options: Options{perCPU: true}},
	} {
		clitest.CheckMetrics(t, withReasons(actionCounts(2)), statsMetrics(&o, "rx0"))
		for _, c := range []meter.ActionCounts{few, actionCounts(2)} {
			drops, series := uint64(0), 0
			for line := range strings.Lines(clitest.Scraped(t, c, statsMetrics(&o, "rx0"))) {
				if strings.HasPrefix(line, "xdpcap_verdict_packets_total{") {
					series++
				}
				if strings.HasPrefix(line, "xdpcap_verdict_packets_total{") && strings.Contains(line, `verdict="drop"`) {
					n, _ := strconv.ParseUint(strings.TrimSpace(line[strings.Index(line, "} ")+2:]), 10, 64)
					drops += n
				}
			}
			if want := c.Total()[xdp.Drop].Packets; drops != want || drops == 1 && series != xdp.VerdictSlots {
				t.Errorf("%+v: %d drops in %d series, want %d", o, drops, series, want)
			}
		}
	}
}

// --action takes the verdicts' names, as the kernel and others write them, and no number.
func TestParseAction(t *testing.T) {
	t.Parallel()
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
