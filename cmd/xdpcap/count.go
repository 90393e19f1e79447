package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// countOptions are the flags of the command count.
type countOptions struct {
	meterOptions
	iface   string
	program string
	variant string
	sizes   bool
	flows   int
	mode    string
}

const countHelp = `count counts packets and bytes per protocol: of IPv4 and IPv6 the upper-layer protocol, behind up
to two VLAN tags and IPv6 extension headers, of everything else the EtherType. A program that runs
on the interface is traced at its entry and left as it is, with --program one of several behind a
libxdp dispatcher; where none runs, count attaches one that passes every packet.`

const countExamples = `  xdpcap count -i eth0                          a table per second; Ctrl-C prints the totals
  xdpcap count -i eth0 --sizes --flows 10       sizes of packets, and the ten largest flows, too
  xdpcap count -i eth0 --program balancer       behind a libxdp dispatcher, what reaches this one
  xdpcap count -i eth0 --interval 10s --json    for a script`

func newCount() *cobra.Command {
	var o countOptions
	cmd := &cobra.Command{
		Use:     "count -i interface [flags]",
		Short:   "Count packets and bytes per protocol, size and flow",
		Long:    countHelp,
		Example: countExamples,
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return runCount(&o) },
	}
	f := cmd.Flags()
	f.StringVarP(&o.iface, "interface", "i", "", "count on this `interface`")
	f.StringVar(&o.program, "program", "", "which program, where several run: `NAME` or id; or the id of one in a devmap or cpumap")
	f.BoolVar(&o.sizes, "sizes", false, "count sizes of packets, too")
	f.IntVar(&o.flows, "flows", 0, "show the `N` flows with most bytes, too")
	f.StringVar(&o.variant, "variant", "percpu", "how the kernel counts, `name`: percpu, ultra or naive; all give the same numbers")
	f.StringVar(&o.mode, "xdp-mode", "auto", "where to attach, `mode`: native (driver), generic (stack), or auto: native if it can be had")
	o.register(f)
	cmd.RegisterFlagCompletionFunc("interface", completeInterface)
	cmd.RegisterFlagCompletionFunc("variant", cobra.FixedCompletions([]string{"ultra", "percpu", "naive"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func runCount(o *countOptions) error {
	if o.iface == "" {
		return errNoInterface
	}
	if o.flows < 0 {
		return fmt.Errorf("--flows %d: must be 0 or more", o.flows)
	}
	open := meter.ProtocolsOptions{Interface: o.iface, Program: o.program, Sizes: o.sizes, Flows: o.flows > 0}
	var err error
	if open.Variant, err = meter.ParseVariant(o.variant); err != nil {
		return fmt.Errorf("--variant: %w", err)
	}
	if o.perCPU && open.Variant == meter.Naive {
		return fmt.Errorf("--per-cpu: the variant naive has one counter for all CPUs; take ultra or percpu")
	}
	if open.Mode, err = xdp.ParseMode(o.mode); err != nil {
		return fmt.Errorf("--xdp-mode: %w", err)
	}
	return runMeter(&o.meterOptions, func() (counters[meter.ProtocolCounts], error) {
		p, err := meter.OpenProtocols(open)
		if err != nil {
			return nil, err
		}
		return &count{Protocols: p, o: o, metrics: newCountMetrics(o)}, nil
	})
}

// count is meter.Protocols as a command shows it.
type count struct {
	*meter.Protocols
	o       *countOptions
	metrics *countMetrics
}

func (c *count) interfaces() []int                   { return []int{c.Interface().Index} }
func (c *count) read() (meter.ProtocolCounts, error) { return c.Read() }
func (c *count) close() error                        { return c.Close() }

func (c *count) reading(s span[meter.ProtocolCounts]) reading {
	return newCountReading(c.o, c.Interface().Name, s)
}

func newCountReading(o *countOptions, iface string, s span[meter.ProtocolCounts]) *countReading {
	r := &countReading{moment: s.moment(), Interface: iface, Total: newRate(s.before.Total(), s.now.Total(), s.took)}
	classes := slices.Sorted(maps.Keys(s.now.Classes))
	r.Protocols = protocolRates(classes, func(class meter.Class) rate {
		return newRate(s.before.Class(class), s.now.Class(class), s.took)
	})
	if o.perCPU {
		for cpu := range s.now.CPUs() {
			r.CPUs = append(r.CPUs, countCPU{strconv.Itoa(cpu), protocolRates(classes, func(class meter.Class) rate {
				return newRate(s.before.CPU(class, cpu), s.now.CPU(class, cpu), s.took)
			})})
		}
	}
	if o.sizes {
		for i, name := range meter.SizeNames {
			r.Sizes = append(r.Sizes, sizeRate{name, newRate(s.before.Sizes[i], s.now.Sizes[i], s.took)})
		}
	}
	if o.flows > 0 {
		r.Flows = topFlows(o.flows, s)
		r.Overflow = &flowOverflow{
			Flows: s.now.Overflow.Flows,
			rate:  newRate(s.before.Overflow.Tally, s.now.Overflow.Tally, s.took),
		}
	}
	return r
}

// protocolRates are those of classes of which there were packets, the largest first.
func protocolRates(classes []meter.Class, of func(meter.Class) rate) []protocolRate {
	rates := []protocolRate{}
	for _, class := range classes {
		if r := of(class); r.Packets > 0 {
			rates = append(rates, protocolRate{class.Family(), class.Protocol(), class.Number(), r})
		}
	}
	slices.SortStableFunc(rates, func(a, b protocolRate) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return rates
}

// topFlows are the flows with most bytes in the interval. A flow that was pushed out of the table and came
// again has fewer than before, and all of them are new.
func topFlows(n int, s span[meter.ProtocolCounts]) []flowRate {
	type lately struct {
		flow        meter.Flow
		before, now meter.Tally
	}
	var all []lately
	for flow, now := range s.now.Flows {
		before := s.before.Flows[flow]
		if now.Packets < before.Packets {
			before = meter.Tally{}
		}
		all = append(all, lately{flow, before, now})
	}
	slices.SortFunc(all, func(a, b lately) int {
		return cmp.Or(
			cmp.Compare(b.now.Bytes-b.before.Bytes, a.now.Bytes-a.before.Bytes),
			cmp.Compare(b.now.Bytes, a.now.Bytes),
			a.flow.Source.Compare(b.flow.Source),
			a.flow.Destination.Compare(b.flow.Destination),
			cmp.Compare(a.flow.Class, b.flow.Class),
		)
	})
	flows := []flowRate{}
	for _, l := range all[:min(n, len(all))] {
		flows = append(flows, flowRate{
			Family:          l.flow.Class.Family(),
			Protocol:        l.flow.Class.Protocol(),
			Source:          l.flow.Source.Addr().String(),
			SourcePort:      l.flow.Source.Port(),
			Destination:     l.flow.Destination.Addr().String(),
			DestinationPort: l.flow.Destination.Port(),
			rate:            newRate(l.before, l.now, s.took),
		})
	}
	return flows
}

// countMetrics leave flows out: Prometheus keeps every label it ever saw.
type countMetrics struct {
	packets, bytes, sizes, sizeBytes *prometheus.Desc
	evicted, evictedBytes            *prometheus.Desc
	o                                *countOptions
}

func newCountMetrics(o *countOptions) *countMetrics {
	on := prometheus.Labels{"interface": o.iface}
	labels := []string{"family", "protocol"}
	if o.perCPU {
		labels = append(labels, "cpu")
	}
	return &countMetrics{
		packets:      prometheus.NewDesc("xdpcap_protocol_packets_total", "Packets by protocol.", labels, on),
		bytes:        prometheus.NewDesc("xdpcap_protocol_bytes_total", "Bytes of packets by protocol.", labels, on),
		sizes:        prometheus.NewDesc("xdpcap_size_packets_total", "Packets by their size in bytes.", []string{"size"}, on),
		sizeBytes:    prometheus.NewDesc("xdpcap_size_bytes_total", "Bytes of packets by their size in bytes.", []string{"size"}, on),
		evicted:      prometheus.NewDesc("xdpcap_flow_evictions_total", "Flows that made room for newer ones in the table.", nil, on),
		evictedBytes: prometheus.NewDesc("xdpcap_flow_evicted_bytes_total", "Bytes of packets of flows that made room.", nil, on),
		o:            o,
	}
}

func (c *count) describe() []*prometheus.Desc { return c.metrics.describe() }

func (m *countMetrics) describe() []*prometheus.Desc {
	d := []*prometheus.Desc{m.packets, m.bytes}
	if m.o.sizes {
		d = append(d, m.sizes, m.sizeBytes)
	}
	if m.o.flows > 0 {
		d = append(d, m.evicted, m.evictedBytes)
	}
	return d
}

func (c *count) collect(now meter.ProtocolCounts, ch chan<- prometheus.Metric) {
	c.metrics.collect(now, ch)
}

func (m *countMetrics) collect(c meter.ProtocolCounts, ch chan<- prometheus.Metric) {
	for class, perCPU := range c.Classes {
		if !m.o.perCPU {
			perCPU = []meter.Tally{c.Class(class)}
		}
		for cpu, t := range perCPU {
			labels := []string{class.Family(), class.Protocol()}
			if m.o.perCPU {
				labels = append(labels, strconv.Itoa(cpu))
			}
			ch <- counter(m.packets, t.Packets, labels...)
			ch <- counter(m.bytes, t.Bytes, labels...)
		}
	}
	if m.o.sizes {
		for i, name := range meter.SizeNames {
			ch <- counter(m.sizes, c.Sizes[i].Packets, name)
			ch <- counter(m.sizeBytes, c.Sizes[i].Bytes, name)
		}
	}
	if m.o.flows > 0 {
		ch <- counter(m.evicted, c.Overflow.Flows)
		ch <- counter(m.evictedBytes, c.Overflow.Bytes)
	}
}
