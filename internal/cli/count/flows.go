package count

import (
	"fmt"
	"io"
	"net/netip"

	"github.com/xdpcap/xdpcap/internal/cli/counters"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/meter"
)

// FlowRate has the packets of a flow that got the same verdict. The flow had at least these since
// the beginning, and at most those of the error in addition.
type FlowRate struct {
	Family          string `json:"family"`
	Protocol        string `json:"protocol"`
	Source          string `json:"source"`
	SourcePort      uint16 `json:"source_port"` // 0 = none
	Destination     string `json:"destination"`
	DestinationPort uint16 `json:"destination_port"`
	Verdict         string `json:"verdict,omitempty"` // where a program is traced
	counters.Rate
	ErrorPackets uint64 `json:"error_packets"`
	ErrorBytes   uint64 `json:"error_bytes"`
}

// FlowOverflow is what the kernel's tables of flows could not keep: flows that had to make room for
// others, with their packets until then. A flow that is in no table had at most MostPackets and
// MostBytes.
type FlowOverflow struct {
	Flows uint64 `json:"flows"`
	counters.Rate
	MostPackets uint64 `json:"most_packets"`
	MostBytes   uint64 `json:"most_bytes"`
}

func newFlowOverflow(i meter.Interval[meter.ProtocolCounts]) *FlowOverflow {
	now := i.Now.Overflow
	return &FlowOverflow{
		Flows:       now.Flows,
		Rate:        counters.NewRate(meter.NewRate(i.Before.Overflow.Tally, now.Tally, i.Took)),
		MostPackets: now.Most.Packets,
		MostBytes:   now.Most.Bytes,
	}
}

func flowRates(flows []meter.FlowRate) []FlowRate {
	rates := []FlowRate{}
	for _, f := range flows {
		r := FlowRate{
			Family:          f.Flow.Class.Family(),
			Protocol:        f.Flow.Class.Protocol(),
			Source:          f.Flow.Source.Addr().String(),
			SourcePort:      f.Flow.Source.Port(),
			Destination:     f.Flow.Destination.Addr().String(),
			DestinationPort: f.Flow.Destination.Port(),
			Rate:            counters.NewRate(f.Rate),
			ErrorPackets:    f.Error.Packets,
			ErrorBytes:      f.Error.Bytes,
		}
		if f.Verdict != meter.NoVerdict {
			r.Verdict = f.Verdict.SlotName()
		}
		rates = append(rates, r)
	}
	return rates
}

// flowTable has no column of packets, because two IPv6 addresses and their ports leave no room for
// it, and a column of verdicts only where a program is traced.
func (r *Report) flowTable(w io.Writer) {
	if r.Overflow == nil {
		return
	}
	t, room := &frame.Table{Left: 2}, 30
	titles := []string{"FLOW", "FROM", "TO"}
	if r.Program != "" {
		t.Left, room = 3, 25
		titles = append(titles, "VERDICT")
	}
	t.Add(append(titles, "BYTES", "AT MOST", "BIT/S")...)
	for _, f := range r.Flows {
		cells := []string{f.Protocol, Endpoint(f.Source, f.SourcePort, room), Endpoint(f.Destination, f.DestinationPort, room)}
		if r.Program != "" {
			cells = append(cells, f.Verdict)
		}
		t.Add(append(cells, frame.Scaled(float64(f.Bytes)), frame.Scaled(float64(f.Bytes)+float64(f.ErrorBytes)), frame.Scaled(f.BPS))...)
	}
	t.Write(w)
	if o := r.Overflow; o.Flows > 0 {
		fmt.Fprintf(w, "%d flows with %d packets, %d bytes made room for others\n", o.Flows, o.Packets, o.Bytes)
		fmt.Fprintf(w, "a flow that is in no table had at most %d packets and %d bytes\n", o.MostPackets, o.MostBytes)
	}
}

// Endpoint is an address with its port. An IPv6 address that is too long for the room is cut.
func Endpoint(addr string, port uint16, room int) string {
	if a, err := netip.ParseAddr(addr); err == nil && port != 0 {
		addr = netip.AddrPortFrom(a, port).String()
	}
	return frame.ShortenMiddle(addr, room)
}
