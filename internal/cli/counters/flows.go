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

// NewFlow is a flow with the keys of JSON objects.
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

// FlowOverflow is what the kernel's tables of flows could not keep: flows that had to make room for
// others, with their packets until then. A flow that is in no table had at most MostPackets and
// MostBytes.
type FlowOverflow struct {
	Flows uint64 `json:"flows"`
	meter.Rate
	MostPackets uint64 `json:"most_packets"`
	MostBytes   uint64 `json:"most_bytes"`
}

// newFlowOverflow compares what the tables could not keep before and at the end of an interval.
func newFlowOverflow(i meter.Interval[meter.FlowCounts]) *FlowOverflow {
	now := i.Now.Overflow
	return &FlowOverflow{
		Flows:       now.Flows,
		Rate:        meter.NewRate(i.Before.Overflow.Tally, now.Tally, i.Took),
		MostPackets: now.Most.Packets,
		MostBytes:   now.Most.Bytes,
	}
}

// Write prints it after a table of flows, unless all flows had room.
func (o *FlowOverflow) Write(w io.Writer) {
	if o.Flows > 0 {
		fmt.Fprintf(w, "%d flows with %d packets, %d bytes made room for others\n", o.Flows, o.Packets, o.Bytes)
		fmt.Fprintf(w, "a flow that is in no table had at most %d packets and %d bytes\n", o.MostPackets, o.MostBytes)
	}
}

// ends are the two addresses of a flow, as cells of a table.
func (f *Flow) ends() []string {
	const whole = math.MaxInt
	return []string{frame.Endpoint(f.Source, f.SourcePort, whole), frame.Endpoint(f.Destination, f.DestinationPort, whole)}
}
