// Package sflow is an sFlow agent: an output that sends a session's packets to an sFlow collector,
// with the counters of interfaces. Its datagrams are those of sFlow version 5 (sflow.org:
// sflow_version_5.txt and sflow_drops.txt).
//
// Every function that encodes appends to a byte slice and returns the longer slice, as the built-in
// append does. They allocate only to grow that slice, keep no reference to their arguments and have
// no state, so they may be called concurrently on different slices. Numbers are big-endian, and all
// fields are padded to a multiple of 4 bytes, as in XDR (RFC 4506).
//
// A datagram is a Header, then Header.Samples samples. All samples are of the expanded kind,
// because only that kind has all 32 bits of an interface's index.
package sflow

import (
	"encoding/binary"
	"net/netip"
)

// version is the version of the datagrams.
const version = 5

// DefaultPort is the UDP port on which a collector listens.
const DefaultPort = 6343

// Types of samples and of their records, of enterprise 0, which is sFlow.org itself.
const (
	sampleFlow      = 3
	sampleCounters  = 4
	sampleDiscarded = 5

	recordRawPacket   = 1
	recordSwitch      = 1001
	recordFunction    = 1038
	recordLinuxReason = 1042

	recordInterface = 1
)

// The types of Header.Agent in a datagram.
const (
	addressIPv4 = 1
	addressIPv6 = 2
)

var be = binary.BigEndian

// A Header is the beginning of a datagram.
type Header struct {
	Agent    netip.Addr // the host that the samples are from; IPv4 in IPv6 is written as IPv4
	SubAgent uint32     // the part of the agent; each part numbers its own datagrams
	Sequence uint32     // number among the datagrams of this part; a gap means lost ones
	Uptime   uint32     // milliseconds since the agent started
	Samples  uint32     // the number of samples that follow
}

// appendHeader appends h: 28 bytes, or 40 if the agent's address is IPv6. An invalid address is
// written as 0.0.0.0.
func appendHeader(b []byte, h *Header) []byte {
	b = be.AppendUint32(b, version)
	switch address := h.Agent.Unmap(); {
	case address.Is6():
		a := address.As16()
		b = append(be.AppendUint32(b, addressIPv6), a[:]...)
	case address.Is4():
		a := address.As4()
		b = append(be.AppendUint32(b, addressIPv4), a[:]...)
	default:
		b = append(be.AppendUint32(b, addressIPv4), 0, 0, 0, 0)
	}
	return appendAll(b, h.SubAgent, h.Sequence, h.Uptime, h.Samples)
}

// sourceInterface is the type of a data source that is an interface.
const sourceInterface = 0

// appendStart begins a sample of a type about an interface. Its length is 0 until finish writes it.
func appendStart(b []byte, sample, sequence, index uint32) []byte {
	b = be.AppendUint64(b, uint64(sample)<<32)
	return appendAll(b, sequence, sourceInterface, index)
}

// appendRecord begins a record of a type. Its length is 0 until finish writes it.
func appendRecord(b []byte, record uint32) []byte { return be.AppendUint64(b, uint64(record)<<32) }

// finish ends the sample or record that begins at start.
func finish(b []byte, start int) []byte {
	be.PutUint32(b[start+4:], uint32(len(b)-start-8))
	return b
}

// appendOpaque appends the number of bytes, then the bytes.
func appendOpaque[T []byte | string](b []byte, data T) []byte {
	b = append(be.AppendUint32(b, uint32(len(data))), data...)
	return append(b, make([]byte, -len(data)&3)...)
}

// appendText appends at most this many bytes of a text, truncated between characters.
func appendText(b []byte, s string, most int) []byte {
	if len(s) > most {
		for most > 0 && s[most]&0xc0 == 0x80 {
			most--
		}
		s = s[:most]
	}
	return appendOpaque(b, s)
}

func appendAll(b []byte, values ...uint32) []byte {
	for _, v := range values {
		b = be.AppendUint32(b, v)
	}
	return b
}
