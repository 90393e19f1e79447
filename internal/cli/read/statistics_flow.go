package read

import (
	"net/netip"

	"github.com/xdpcap/xdpcap/internal/cli/counters"
	"github.com/xdpcap/xdpcap/internal/headers"
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

// packetFlow finds the flow of a packet: its IP addresses after any VLAN tags, the protocol after
// extension headers, and the ports of TCP, UDP, SCTP and the like. Fragments have no ports, so that
// all of them are in one flow. It returns false if there is no IP header.
func packetFlow(typ headers.Link, packet []byte) (flow meter.Flow, ok bool) {
	var h headers.Headers
	if !headers.Parse(typ, packet, &h) || h.Family == 0 {
		return flow, false
	}
	class := meter.IPv4(h.Protocol)
	if h.Family == 6 {
		class = meter.IPv6(h.Protocol)
	}
	from, to := h.Ports()
	return meter.Flow{Class: class, Source: netip.AddrPortFrom(h.Source, from), Destination: netip.AddrPortFrom(h.Destination, to)}, true
}
