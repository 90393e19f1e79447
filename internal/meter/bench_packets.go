package meter

import "encoding/binary"

// commonPackets returns the most common kinds of packets, in the shortest frames: at a given
// bandwidth, short frames are the most packets.
func commonPackets() [][]byte {
	return [][]byte{
		commonPacket(0x0800, 6), commonPacket(0x0800, 17),
		commonPacket(0x86dd, 6), commonPacket(0x86dd, 17),
	}
}

// commonPacket makes a packet. All bytes are zero except those that tell its protocol.
func commonPacket(etherType uint16, protocol byte) []byte {
	if etherType == 0x0800 {
		p := make([]byte, 60)
		binary.BigEndian.PutUint16(p[12:], etherType)
		p[14], p[14+9] = 0x45, protocol
		return p
	}
	p := make([]byte, 14+40+20)
	binary.BigEndian.PutUint16(p[12:], etherType)
	p[14], p[14+6] = 0x60, protocol
	return p
}
