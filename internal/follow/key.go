package follow

import (
	"encoding/binary"
	"hash/maphash"

	"github.com/xdpcap/xdpcap/capture/packet"
	"github.com/xdpcap/xdpcap/internal/headers"
)

// A key is the common part of the records of one packet. Two records with the same key are of one
// packet, or of packets that cannot be distinguished.
type key struct {
	kind kind
	ipID uint16 // of IPv4's header; 0 = it has no id

	// The sequence numbers of a TCP segment with data: from start up to end, exclusive. SYN and FIN
	// count as a byte each.
	start, end uint32

	flow    uint64 // hash of addresses, protocol and ports; with byID, of file, interface and program
	content uint64 // hash of the bytes after IP's headers, without their checksum; with byID, the id
}

// A kind is the way in which records are joined.
type kind uint8

const (
	byNothing  kind = iota // the record is joined to no other
	byID                   // by the packet id, at entry and exit of a program
	byContent              // by the parts of the packet that the path does not change
	bySequence             // by the sequence numbers of TCP data, which may be in several smaller packets
)

// Identifiers makes identifiers of packets by their content. They are random, and equal for records
// of one packet at all places and in all files, as long as the path does not change it. It belongs
// to one goroutine.
type Identifiers struct{ keys keyMaker }

// Of returns the identifier of a packet. ok is false if the content does not distinguish the packet
// from others.
func (i *Identifiers) Of(s *packet.Source, p *packet.Packet) (id uint64, ok bool) {
	k := i.keys.content(s, p)
	return maphash.Comparable(i.keys.hash.Seed(), k), k.kind != byNothing
}

// holds reports whether a packet has all the TCP data of another one, for example because GRO has
// merged it from packets like this. The IPv4 id of a merged packet is that of its first part. The
// ids of the other parts are the same or larger, by 1 from part to part.
func (k *key) holds(part *key) bool {
	offset, length := part.start-k.start, part.end-part.start
	areData := k.kind == bySequence && part.kind == bySequence && k.flow == part.flow
	isWithin := uint64(offset)+uint64(length) <= uint64(k.end-k.start)
	maxIDs := offset // parts before this one, which have at least one byte each
	return areData && isWithin && uint32(part.ipID-k.ipID) <= maxIDs
}

// A keyMaker makes the keys of records. It belongs to one goroutine.
type keyMaker struct {
	hash maphash.Hash    // with a random seed, so that nobody can make a file of packets that collide
	h    headers.Headers // reused for each packet
}

const (
	maxSequence = 1 << 20 // bytes of the largest TCP segment with data; BIG TCP's are half of that

	// frameHeader is the maximum number of bytes before IP's header, for comparable: Ethernet's
	// header and two VLAN tags.
	frameHeader = 22
)

// id returns the key of a packet id. Only tracers give a packet the same id at two hooks.
func (m *keyMaker) id(s *packet.Source, p *packet.Packet) (k key) {
	id, known := s.IDOf(p)
	if !known || !s.Hook.Traces() {
		return k
	}
	m.hash.Reset()
	for _, text := range []string{s.File, s.Name, s.Target.Name} {
		m.hash.WriteString(text)
		m.hash.WriteByte(0)
	}
	return key{kind: byID, flow: m.hash.Sum64(), content: id}
}

// content returns the key of a packet's content. For a packet that is not IP, or that was truncated
// too early, it returns the zero key.
func (m *keyMaker) content(s *packet.Source, p *packet.Packet) (k key) {
	h := &m.h
	if !headers.Parse(headers.LinkToDecode(s.LinkType()), p.Data, h) || h.Family == 0 {
		return k
	}
	body := h.Rest
	if h.Fragment {
		body = h.Piece
	}
	total := ipLength(h, p)
	header := len(h.IP) - len(body)
	length := total - header // on the wire
	if length < 0 {
		return k
	}
	k = key{kind: byContent, flow: m.flow(h)}
	if h.Family == 4 {
		k.ipID = binary.BigEndian.Uint16(h.IP[4:])
	}
	if h.Protocol == headers.TCP && !h.Fragment {
		return m.tcp(k, body, length)
	}
	same := body[:min(len(body), max(comparable(s, p, total)-header, 0))] // at all places
	if len(same) == 0 && length > 0 && k.ipID == 0 {
		return key{} // all packets of the flow would be the same
	}
	m.hash.Reset()
	m.hashNumber(uint64(length))
	m.hashWithoutChecksum(h, same)
	if h.Fragment && h.Family == 4 {
		m.hashNumber(uint64(binary.BigEndian.Uint16(h.IP[6:]) & 0x3fff)) // its position, and whether it is the last
	}
	k.content = m.hash.Sum64()
	return k
}

// tcp completes the key of a TCP segment. The key of an empty segment is computed from its header
// alone.
func (m *keyMaker) tcp(k key, segment []byte, length int) key {
	if len(segment) < 20 {
		return key{}
	}
	size := int(segment[12]>>4) * 4
	length -= size
	if size < 20 || length < 0 {
		return key{}
	}
	const fin, syn = 1, 2
	for _, flag := range []byte{fin, syn} {
		if segment[13]&flag != 0 {
			length++
		}
	}
	switch {
	case length > maxSequence:
		return key{}
	case length > 0:
		k.kind, k.start = bySequence, binary.BigEndian.Uint32(segment[4:])
		k.end = k.start + uint32(length)
		return k
	}
	m.hash.Reset()
	m.hashWithoutChecksum(&m.h, segment[:20])
	k.content = m.hash.Sum64()
	return k
}

// ipLength returns the length of the IP packet in bytes, before truncation. A packet of more than
// 64 KiB has no length in its header.
func ipLength(h *headers.Headers, p *packet.Packet) int {
	n, fixed := int(binary.BigEndian.Uint16(h.IP[2:])), 0
	if h.Family == 6 {
		n, fixed = int(binary.BigEndian.Uint16(h.IP[4:])), 40
	}
	if n == 0 {
		return max(int(p.WireLen), len(p.Data)) - (len(p.Data) - len(h.IP))
	}
	return n + fixed
}

// comparable returns the number of an IP packet's bytes that every record of it has, so that
// records of different places can be compared. The padding of a frame does not count. If the
// snapshot length truncates the packet, a record with more VLAN tags has fewer bytes of IP:
// frameHeader allows for that. A record that is shorter than the snapshot length was cut after its
// headers, like every other record of the packet.
func comparable(s *packet.Source, p *packet.Packet, length int) int {
	if s.SnapLen > 0 {
		length = min(length, int(s.SnapLen)-frameHeader)
	}
	if len(p.Data) < int(p.WireLen) && (s.SnapLen == 0 || len(p.Data) >= int(s.SnapLen)) {
		length = min(length, len(p.Data)-frameHeader)
	}
	return length
}

// flow returns the hash of addresses, protocol and ports.
func (m *keyMaker) flow(h *headers.Headers) uint64 {
	source, destination := h.Source.As16(), h.Destination.As16()
	from, to := h.Ports()
	m.hash.Reset()
	m.hash.Write(source[:])
	m.hash.Write(destination[:])
	m.hashNumber(uint64(h.Family)<<40 | uint64(h.Protocol)<<32 | uint64(from)<<16 | uint64(to))
	return m.hash.Sum64()
}

func (m *keyMaker) hashNumber(n uint64) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], n)
	m.hash.Write(b[:])
}

// hashWithoutChecksum adds the bytes after IP's headers to the hash, except a checksum that a card
// or the stack may still have to compute.
func (m *keyMaker) hashWithoutChecksum(h *headers.Headers, b []byte) {
	at := 0
	switch h.Protocol {
	case headers.TCP:
		at = 16
	case headers.UDP, headers.UDPLite:
		at = 6
	case headers.ICMP, headers.ICMPv6:
		at = 2
	}
	if at > 0 && !h.Fragment {
		m.hash.Write(b[:min(at, len(b))])
		b = b[min(at+2, len(b)):]
	}
	m.hash.Write(b)
}
