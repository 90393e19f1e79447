package pcapng

// PacketInterface returns the Interface of a block made by AppendPacket.
func PacketInterface(block []byte) uint32 { return le.Uint32(block[8:]) }

// SetPacketInterface changes the Interface of a block made by AppendPacket.
func SetPacketInterface(block []byte, number uint32) { le.PutUint32(block[8:], number) }

// PacketSize returns the number of the packet's bytes in a block made by AppendPacket.
func PacketSize(block []byte) int { return int(le.Uint32(block[20:])) }

// PacketData returns the packet's bytes in a block made by AppendPacket.
func PacketData(block []byte) []byte { return block[28:][:PacketSize(block)] }

// PacketWireLen returns the WireLen of a block made by AppendPacket.
func PacketWireLen(block []byte) uint32 { return le.Uint32(block[24:]) }

// PacketTime returns the Time of a block made by AppendPacket.
func PacketTime(block []byte) uint64 { return timeOf(block[12:], false) }

// AppendDropped appends a copy of a block made by AppendPacket, with `more` added to its
// epb_dropcount.
func AppendDropped(dst, block []byte, more uint64) []byte {
	const endOfOptions = 8 // bytes: opt_endofopt, and the second length
	start, end := len(dst), len(block)-endOfOptions
	for at := headSize + padded(uint32(PacketSize(block))); at+4 <= end; at += 4 + padded(uint32(le.Uint16(block[at+2:]))) {
		if le.Uint16(block[at:]) == epbDropCount && at+12 <= end {
			dst = append(dst, block...)
			count := dst[start+at+4:]
			le.PutUint64(count, le.Uint64(count)+more)
			return dst
		}
	}
	dst = append(dst, block[:end]...)
	dst = appendOption64(dst, epbDropCount, more)
	dst = append(dst, block[end:]...)
	n := uint32(len(dst) - start)
	le.PutUint32(dst[start+4:], n)
	le.PutUint32(dst[len(dst)-4:], n)
	return dst
}
