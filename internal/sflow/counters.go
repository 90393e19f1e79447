package sflow

import "math"

// unknown is the value of an unknown counter.
const unknown = math.MaxUint32

// countersLength is the length of a counter sample, in bytes.
const countersLength = 8 + 12 + 4 + 8 + 88

// appendCounters appends a counter sample. sequence is its number among those of the interface.
func appendCounters(b []byte, sequence uint32, c *InterfaceCounters) []byte {
	start := len(b)
	b = appendStart(b, sampleCounters, sequence, c.Index)
	b = be.AppendUint32(b, 1) // record
	at := len(b)
	b = finish(c.append(appendRecord(b, recordInterface)), at)
	return finish(b, start)
}

// InterfaceCounters are the counters that every kind of interface has (if_counters). Counters of
// packets are modulo 2^32.
type InterfaceCounters struct {
	Index       uint32
	Type        uint32 // IANA's ifType: 6 is Ethernet
	Speed       uint64 // bit/s; 0 = unknown
	Direction   uint32 // 0 = unknown, 1 = full duplex, 2 = half duplex
	Up, Running bool   // the administrative state and the operational one
	In, Out     Traffic
	UnknownIn   uint32 // packets of unknown protocols
	Promiscuous bool
}

// Traffic is one direction of an interface.
type Traffic struct {
	Octets                                           uint64
	Unicast, Multicast, Broadcast, Discarded, Errors uint32 // packets
}

func (c *InterfaceCounters) append(b []byte) []byte {
	b = appendAll(b, c.Index, c.Type)
	b = be.AppendUint64(b, c.Speed)
	b = appendAll(b, c.Direction, flag(c.Up)|flag(c.Running)<<1)
	b = appendTraffic(b, &c.In)
	b = be.AppendUint32(b, c.UnknownIn)
	b = appendTraffic(b, &c.Out)
	return be.AppendUint32(b, flag(c.Promiscuous))
}

func appendTraffic(b []byte, t *Traffic) []byte {
	b = be.AppendUint64(b, t.Octets)
	return appendAll(b, t.Unicast, t.Multicast, t.Broadcast, t.Discarded, t.Errors)
}

func flag(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}
