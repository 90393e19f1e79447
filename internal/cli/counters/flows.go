package counters

import (
	"fmt"
	"io"
	"math"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/meter"
)

// A Flow is a meter.Flow with the keys of JSON objects.
type Flow struct {
	Family          string `json:"family"`
	Protocol        string `json:"protocol"`
	Source          string `json:"source"`
	SourcePort      uint16 `json:"source_port"` // 0 = none
	Destination     string `json:"destination"`
	DestinationPort uint16 `json:"destination_port"`
}

func NewFlow(f meter.Flow) Flow {
	return Flow{
		Family:          f.Class.Family(),
		Protocol:        f.Class.Protocol(),
		Source:          f.Source.Addr().String(),
		SourcePort:      f.Source.Port(),
		Destination:     f.Destination.Addr().String(),
		DestinationPort: f.Destination.Port(),
	}
}

// FlowOverflow counts the flows that were evicted from the kernel's tables, with their packets
// until then. MostPackets and MostBytes are the upper bounds of a flow that is in no table.
type FlowOverflow struct {
	Flows uint64 `json:"flows"`
	meter.Rate
	MostPackets uint64 `json:"most_packets"`
	MostBytes   uint64 `json:"most_bytes"`
}

func newFlowOverflow(i meter.Interval[meter.FlowCounts]) *FlowOverflow {
	now := i.Now.Overflow
	return &FlowOverflow{
		Flows:       now.Flows,
		Rate:        meter.NewRate(i.Before.Overflow.Tally, now.Tally, i.Took),
		MostPackets: now.Most.Packets,
		MostBytes:   now.Most.Bytes,
	}
}

// Write prints lines below a table of flows, unless no flow was evicted.
func (o *FlowOverflow) Write(w io.Writer) {
	if o.Flows > 0 {
		fmt.Fprintf(w, "%d flows with %d packets, %d bytes made room for others\n", o.Flows, o.Packets, o.Bytes)
		fmt.Fprintf(w, "a flow that is in no table had at most %d packets and %d bytes\n", o.MostPackets, o.MostBytes)
	}
}

// shownCells omits the cells of columns that are not shown.
func shownCells(isShown []bool, cells ...string) (shown []string) {
	for i, cell := range cells {
		if isShown[i] {
			shown = append(shown, cell)
		}
	}
	return shown
}

// ends are the two addresses of a flow, as cells of a table, which shortens them.
func (f *Flow) ends() (from, to string) {
	const whole = math.MaxInt
	return frame.Endpoint(f.Source, f.SourcePort, whole), frame.Endpoint(f.Destination, f.DestinationPort, whole)
}
