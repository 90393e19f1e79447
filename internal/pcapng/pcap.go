package pcapng

// A PcapUnit is the unit of the time stamps in a file of classic pcap (draft-ietf-opsawg-pcap), in
// ns. The format has only packets, all of one link type. It is written in little-endian byte order.
type PcapUnit uint64

const (
	PcapNanoseconds  PcapUnit = 1
	PcapMicroseconds PcapUnit = 1000 // for programs that cannot read nanoseconds
)

// AppendPcapHeader appends the header of a file. snapLen is the most bytes of a packet that are
// written; linkType is a number of LINKTYPE_.
func AppendPcapHeader(b []byte, u PcapUnit, snapLen uint32, linkType uint16) []byte {
	magic := uint32(0xa1b23c4d) // of nanoseconds
	if u == PcapMicroseconds {
		magic = 0xa1b2c3d4
	}
	b = le.AppendUint32(b, magic)
	b = le.AppendUint32(b, 2|4<<16) // version 2.4
	b = le.AppendUint64(b, 0)       // time zone and accuracy, which are not used
	b = le.AppendUint32(b, snapLen)
	return le.AppendUint32(b, uint32(linkType))
}

// AppendPcapPacket appends a packet. at is in ns since the Unix epoch; an earlier time becomes the
// epoch. wireLen is the packet's length, of which data is the beginning.
func AppendPcapPacket(b []byte, u PcapUnit, at int64, wireLen uint32, data []byte) []byte {
	since := uint64(max(at, 0))
	b = le.AppendUint32(b, uint32(since/1e9))
	b = le.AppendUint32(b, uint32(since%1e9/uint64(u)))
	b = le.AppendUint32(b, uint32(len(data)))
	b = le.AppendUint32(b, wireLen)
	return append(b, data...)
}
