package read

import (
	"github.com/xdpcap/xdpcap/internal/cli/counters"
	"github.com/xdpcap/xdpcap/internal/meter"
)

// FlowKeys are the keys of a flow: one direction of a conversation, as in count --flows. If there
// is no flow, all are missing.
type FlowKeys struct {
	Family          string `json:"family,omitempty"`
	Protocol        string `json:"protocol,omitempty"`
	Source          string `json:"source,omitempty"`
	SourcePort      uint16 `json:"source_port,omitempty"` // 0 = none
	Destination     string `json:"destination,omitempty"`
	DestinationPort uint16 `json:"destination_port,omitempty"`
}

func newFlowKeys(f meter.Flow) FlowKeys {
	return FlowKeys(counters.NewFlow(f)) // which has none of them missing
}
