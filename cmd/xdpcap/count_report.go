package main

import (
	"fmt"
	"io"
	"net/netip"
	"strconv"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/meter"
)

// countReport is what count prints: as a table, or with --json as this object.
type countReport struct {
	intervalKeys
	Interface string         `json:"interface"`
	Direction string         `json:"direction"` // in or out
	Protocols []protocolRate `json:"protocols"` // most bytes first
	Total     rate           `json:"total"`
	CPUs      []countCPU     `json:"cpus,omitempty"`          // with --per-cpu
	Sizes     []sizeRate     `json:"sizes,omitempty"`         // with --sizes
	Flows     []flowRate     `json:"flows,omitempty"`         // with --flows: the largest
	Overflow  *flowOverflow  `json:"flow_overflow,omitempty"` // with --flows
}

type protocolRate struct {
	Family   string `json:"family"`   // ipv4, ipv6, other
	Protocol string `json:"protocol"` // a name, or the number
	Number   int    `json:"number"`   // IP protocol; EtherType, 0 where there is none
	rate
}

type countCPU struct {
	CPU       int            `json:"cpu"`
	Protocols []protocolRate `json:"protocols"`
}

type sizeRate struct {
	Size string `json:"size"` // bytes, from-to
	rate
}

type flowRate struct {
	Family          string `json:"family"`
	Protocol        string `json:"protocol"`
	Source          string `json:"source"`
	SourcePort      uint16 `json:"source_port"` // 0 = none
	Destination     string `json:"destination"`
	DestinationPort uint16 `json:"destination_port"`
	rate
}

// flowOverflow is the packets of flows that had to make room for others in the kernel's table.
type flowOverflow struct {
	Flows uint64 `json:"flows"`
	rate
}

func newCountReport(o *countOptions, d capture.Direction, iface string, i meter.Interval[meter.ProtocolCounts]) *countReport {
	r := &countReport{
		intervalKeys: newIntervalKeys(i),
		Interface:    iface,
		Direction:    d.String(),
		Protocols:    protocolRates(meter.ClassRates(i)),
		Total:        newRate(meter.NewRate(i.Before.Total(), i.Now.Total(), i.Took)),
	}
	if o.perCPU {
		for cpu := range i.Now.CPUs() {
			r.CPUs = append(r.CPUs, countCPU{cpu, protocolRates(meter.CPUClassRates(i, cpu))})
		}
	}
	if o.sizes {
		for k, name := range meter.SizeNames {
			r.Sizes = append(r.Sizes, sizeRate{name, newRate(meter.NewRate(i.Before.Sizes[k], i.Now.Sizes[k], i.Took))})
		}
	}
	if o.flows > 0 {
		r.Flows = flowRates(meter.TopFlows(i, o.flows))
		r.Overflow = &flowOverflow{
			Flows: i.Now.Overflow.Flows,
			rate:  newRate(meter.NewRate(i.Before.Overflow.Tally, i.Now.Overflow.Tally, i.Took)),
		}
	}
	return r
}

// protocolRates returns a list also where there is nothing, so that JSON has [] instead of null.
func protocolRates(classes []meter.ClassRate) []protocolRate {
	rates := []protocolRate{}
	for _, c := range classes {
		rates = append(rates, protocolRate{c.Class.Family(), c.Class.Protocol(), c.Class.Number(), newRate(c.Rate)})
	}
	return rates
}

func flowRates(flows []meter.FlowRate) []flowRate {
	rates := []flowRate{}
	for _, f := range flows {
		rates = append(rates, flowRate{
			Family:          f.Flow.Class.Family(),
			Protocol:        f.Flow.Class.Protocol(),
			Source:          f.Flow.Source.Addr().String(),
			SourcePort:      f.Flow.Source.Port(),
			Destination:     f.Flow.Destination.Addr().String(),
			DestinationPort: f.Flow.Destination.Port(),
			rate:            newRate(f.Rate),
		})
	}
	return rates
}

func (r *countReport) object() any { return r }

func (r *countReport) writeTable(w io.Writer) {
	t := &table{left: 1}
	t.add(append([]string{"FAMILY", "PROTOCOL"}, rateColumns...)...)
	for _, p := range r.Protocols {
		t.add(p.row(p.Family, p.Protocol)...)
	}
	t.add(r.Total.row("total", "")...)
	t.write(w)
	r.cpuTable(w)
	r.sizeTable(w)
	r.flowTable(w)
}

func (r *countReport) cpuTable(w io.Writer) {
	if r.CPUs == nil {
		return
	}
	t := &table{left: 2}
	t.add(append([]string{"CPU", "FAMILY", "PROTOCOL"}, rateColumns...)...)
	for _, c := range r.CPUs {
		for _, p := range c.Protocols {
			t.add(p.row(strconv.Itoa(c.CPU), p.Family, p.Protocol)...)
		}
	}
	t.write(w)
}

func (r *countReport) sizeTable(w io.Writer) {
	if r.Sizes == nil {
		return
	}
	t := &table{}
	t.add(append([]string{"SIZE"}, append(rateColumns, "SHARE")...)...)
	for _, s := range r.Sizes {
		share := "-"
		if r.Total.Packets > 0 {
			share = fmt.Sprintf("%.1f %%", 100*float64(s.Packets)/float64(r.Total.Packets))
		}
		t.add(append(s.row(s.Size), share)...)
	}
	t.write(w)
}

// flowTable has no column of packets, because two IPv6 addresses and their ports leave no room for
// it.
func (r *countReport) flowTable(w io.Writer) {
	if r.Overflow == nil {
		return
	}
	t := &table{left: 2}
	t.add("FLOW", "FROM", "TO", "BYTES", "BIT/S")
	for _, f := range r.Flows {
		t.add(f.Protocol, endpoint(f.Source, f.SourcePort), endpoint(f.Destination, f.DestinationPort),
			scaled(float64(f.Bytes)), scaled(f.BPS))
	}
	t.write(w)
	if o := r.Overflow; o.Flows > 0 {
		fmt.Fprintf(w, "%d flows with %d packets, %d bytes made room for newer ones\n", o.Flows, o.Packets, o.Bytes)
	}
}

// endpoint is an address with its port. An IPv6 address with eight groups of four digits has no
// room in a line and is cut.
func endpoint(addr string, port uint16) string {
	const room = 34
	if a, err := netip.ParseAddr(addr); err == nil && port != 0 {
		addr = netip.AddrPortFrom(a, port).String()
	}
	return shortenMiddle(addr, room)
}

// shortenMiddle cuts the middle out of an address that is too long. The network is at its beginning
// and the port at its end.
func shortenMiddle(s string, columns int) string {
	if len(s) <= columns {
		return s
	}
	if columns < 1 {
		return ""
	}
	kept := (columns - 1) / 2
	return s[:kept] + "…" + s[len(s)-(columns-1-kept):]
}
