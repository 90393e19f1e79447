package main

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// monitorMetrics are labelled by what tells the cases of an event apart, as in JSON.
type monitorMetrics struct {
	events, packets, drops, sched, verdicts, missed *prometheus.Desc
	perCPU                                          bool
}

func newMonitorMetrics(o *monitorOptions) *monitorMetrics {
	labels := []string{"event", "reason", "from", "to", "map_id", "to_cpu"}
	cpumap := []string{"map_id"}
	if o.perCPU {
		labels = append(labels, "cpu")
		cpumap = append(cpumap, "cpu")
	}
	on := prometheus.Labels{}
	if o.iface != "" {
		on["interface"] = o.iface
	}
	if o.program != "" {
		on["program"] = o.program
	}
	desc := func(name, help string, labels []string) *prometheus.Desc {
		return prometheus.NewDesc("xdpcap_tracepoint_"+name+"_total", help, labels, on)
	}
	return &monitorMetrics{
		events:   desc("events", "Events of the xdp tracepoints; of bulks, their number.", labels),
		packets:  desc("packets", "Packets that went on, by the xdp tracepoints.", labels),
		drops:    desc("drops", "Packets that were lost, by the xdp tracepoints.", labels),
		sched:    desc("cpumap_sched", "Bulks before which a cpumap's thread had slept or made way.", cpumap),
		verdicts: desc("cpumap_verdicts", "Packets by the verdict of the program in a cpumap's entry.", append([]string{"verdict"}, cpumap...)),
		missed:   desc("missed", "Events that are in no other metric: there were too many different ones.", nil),
		perCPU:   o.perCPU,
	}
}

func (m *monitor) describe() []*prometheus.Desc { return m.metrics.descs() }

func (m *monitorMetrics) descs() []*prometheus.Desc {
	return []*prometheus.Desc{m.events, m.packets, m.drops, m.sched, m.verdicts, m.missed}
}

func (m *monitor) collect(c meter.EventCounts, ch chan<- prometheus.Metric) { m.metrics.collect(c, ch) }

func (m *monitorMetrics) collect(c meter.EventCounts, ch chan<- prometheus.Metric) {
	for k, slots := range c.Cases {
		if !m.perCPU {
			m.send(ch, k, sumEvents(slots))
			continue
		}
		for cpu, count := range slots {
			m.send(ch, k, count, strconv.Itoa(cpu))
		}
	}
	ch <- counter(m.missed, c.Missed)
}

func (m *monitorMetrics) send(ch chan<- prometheus.Metric, k meter.Case, c meter.EventCount, cpu ...string) {
	e := newEventCase(k)
	if k.Event == meter.AttachFailed {
		e.Reason = e.Message
	}
	var mapID, toCPU string
	if e.MapID != 0 {
		mapID = strconv.FormatUint(uint64(e.MapID), 10)
	}
	if e.ToCPU != nil {
		toCPU = strconv.Itoa(*e.ToCPU)
	}
	labels := append([]string{e.Event, e.Reason, e.From, e.To, mapID, toCPU}, cpu...)
	ch <- counter(m.events, c.Events, labels...)
	ch <- counter(m.packets, c.Packets, labels...)
	ch <- counter(m.drops, c.Drops, labels...)
	if k.Event != meter.CPUMapKthread {
		return
	}
	ch <- counter(m.sched, c.Sched, append([]string{mapID}, cpu...)...)
	for verdict, n := range map[xdp.Verdict]uint64{xdp.Pass: c.Passed, xdp.Drop: c.Dropped, xdp.Redirect: c.Redirected} {
		ch <- counter(m.verdicts, n, append([]string{verdict.String(), mapID}, cpu...)...)
	}
}
