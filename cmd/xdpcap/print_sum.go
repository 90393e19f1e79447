package main

// sumPart adds b to an Internet checksum (RFC 1071) in progress.
func sumPart(s uint32, b []byte) uint32 {
	for ; len(b) > 1; b = b[2:] {
		s += uint32(be.Uint16(b))
	}
	if len(b) == 1 {
		s += uint32(b[0]) << 8
	}
	return s>>16 + s&0xffff
}

// sum ends an Internet checksum with b: 0 where the checksum in b is right, and the right one where b has 0 for it.
func sum(s uint32, b []byte) uint16 {
	s = sumPart(s, b)
	s = s>>16 + s&0xffff
	return ^uint16(s>>16 + s&0xffff)
}

// checksum returns whether the checksum at offset at of the whole transport packet b is right, and the right one.
func (n *network) checksum(b []byte, at int) (ok bool, want uint16) {
	s := sumPart(0, n.src.AsSlice())
	s = sumPart(s, n.dst.AsSlice())
	s += uint32(n.proto) + uint32(len(b))
	want = sum(sumPart(s, b[:at]), b[at+2:])
	return sum(s, b) == 0, want
}
