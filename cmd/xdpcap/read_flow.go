package main

import (
	"encoding/binary"
	"net/netip"

	"github.com/xdpcap/xdpcap/internal/meter"
)

// flowKeys are those of a flow: one direction of a conversation, as in count --flows. Where there
// is none, all are missing.
type flowKeys struct {
	Family          string `json:"family,omitempty"`
	Protocol        string `json:"protocol,omitempty"`
	Source          string `json:"source,omitempty"`
	SourcePort      uint16 `json:"source_port,omitempty"` // 0 = none
	Destination     string `json:"destination,omitempty"`
	DestinationPort uint16 `json:"destination_port,omitempty"`
}

func newFlowKeys(f meter.Flow) flowKeys {
	return flowKeys{
		Family:          f.Class.Family(),
		Protocol:        f.Class.Protocol(),
		Source:          f.Source.Addr().String(),
		SourcePort:      f.Source.Port(),
		Destination:     f.Destination.Addr().String(),
		DestinationPort: f.Destination.Port(),
	}
}

// frameFlow finds the flow of an Ethernet frame: its IP addresses behind any VLAN tags, the
// protocol behind extension headers, and the ports of TCP, UDP, SCTP and the like. Fragments have
// no ports, so that all of them are in one flow. It is false where there is no IP header.
func frameFlow(frame []byte) (flow meter.Flow, ok bool) {
	at := 12
	for at+2 <= len(frame) {
		typ := binary.BigEndian.Uint16(frame[at:])
		at += 2
		switch typ {
		case 0x8100, 0x88a8, 0x9100, 0x9200:
			at += 2
		case 0x0800:
			return flowOfIPv4(frame[at:])
		case 0x86dd:
			return flowOfIPv6(frame[at:])
		default:
			return flow, false
		}
	}
	return flow, false
}

func flowOfIPv4(b []byte) (flow meter.Flow, ok bool) {
	if len(b) < 20 || b[0]>>4 != 4 {
		return flow, false
	}
	ports := b[min(len(b), int(b[0]&0xf)*4):]
	if binary.BigEndian.Uint16(b[6:])&0x3fff != 0 { // more fragments follow, or this is not the first
		ports = nil
	}
	src, dst := netip.AddrFrom4([4]byte(b[12:16])), netip.AddrFrom4([4]byte(b[16:20]))
	return newFlow(meter.IPv4(b[9]), b[9], src, dst, ports), true
}

func flowOfIPv6(b []byte) (flow meter.Flow, ok bool) {
	if len(b) < 40 || b[0]>>4 != 6 {
		return flow, false
	}
	const hopByHop, routing, fragment, authentication, destination = 0, 43, 44, 51, 60
	next, rest := b[6], b[40:]
	for len(rest) >= 8 {
		n := 8 + int(rest[1])*8
		switch next {
		case hopByHop, routing, destination:
		case authentication:
			n = 8 + int(rest[1])*4
		case fragment:
			if n = 8; binary.BigEndian.Uint16(rest[2:])&0xfff9 != 0 {
				n = len(rest) // of a fragment, what follows is no header
			}
		default:
			n = 0
		}
		if n == 0 {
			break
		}
		next, rest = rest[0], rest[min(n, len(rest)):]
	}
	src, dst := netip.AddrFrom16([16]byte(b[8:24])), netip.AddrFrom16([16]byte(b[24:40]))
	return newFlow(meter.IPv6(next), next, src, dst, rest), true
}

// newFlow takes the ports from the header of a protocol that has any.
func newFlow(class meter.Class, protocol uint8, src, dst netip.Addr, header []byte) meter.Flow {
	const tcp, udp, dccp, sctp, udpLite = 6, 17, 33, 132, 136
	var from, to uint16
	switch protocol {
	case tcp, udp, dccp, sctp, udpLite:
		if len(header) >= 4 {
			from, to = binary.BigEndian.Uint16(header), binary.BigEndian.Uint16(header[2:])
		}
	}
	return meter.Flow{Class: class, Source: netip.AddrPortFrom(src, from), Destination: netip.AddrPortFrom(dst, to)}
}
