package dissect

import "github.com/xdpcap/xdpcap/internal/headers"

var (
	sctpChunks = map[uint8]string{0: "DATA", 1: "INIT", 2: "INIT ACK", 3: "SACK", 4: "HB REQ", 5: "HB ACK", 6: "ABORT",
		7: "SHUTDOWN", 8: "SHUTDOWN ACK", 9: "OP ERR", 10: "COOKIE ECHO", 11: "COOKIE ACK", 12: "ECN ECHO", 13: "ECN CWR",
		14: "SHUTDOWN COMPLETE", 0xc0: "FOR CUM TSN", 0xc1: "REL CTRL", 0xc2: "REL CTRL ACK"}
	sctpPayloads = map[uint32]string{1: "ISDN Q.921", 2: "M2UA", 3: "M3UA", 4: "SUA", 5: "M2PA", 6: "V5.2", 7: "H.248",
		8: "BICC", 9: "TALI", 10: "DUA", 11: "ASAP", 12: "ENRP", 13: "H.323", 14: "Q.IPC", 15: "SIMCO", 16: "DDPSC",
		17: "DDPSSC", 18: "S1AP", 19: "RUA", 20: "HNBAP", 21: "ForCES HP", 22: "ForCES MP", 23: "ForCES LP", 24: "SBc-AP",
		25: "NBAP", 27: "X2AP"}
	sctpPorts = map[uint16]string{6704: "[ForCES HP]", 6705: "[ForCES MP]", 6706: "[ForCES LP]"}
)

func (d *Dissector) sctp(b []byte, length int) {
	d.proto = "sctp"
	if length < 12 {
		d.addf("truncated-sctp - %d bytes missing!", 12-length)
		return
	}
	d.require(b, 12)
	src, dst := d.u16(b, 0), d.u16(b, 2)
	d.net.proto = headers.SCTP // the addresses are shown here even after extension headers
	d.ports(headers.SCTP, src, dst)
	d.add("sctp")
	d.add(sctpPorts[src])
	d.add(sctpPorts[dst])
	b, length = b[12:], length-12
	separator := " ("
	if d.o.Verbose > 1 {
		separator = "\n\t"
	}
	for i := 1; length > 0; i++ {
		if length < 4 {
			d.addf("%s%d) [chunk descriptor cut off at end of packet]", separator, i)
			return
		}
		d.require(b, 4)
		size := int(d.u16(b, 2))
		if size < 4 {
			d.addf("%s%d) [Bad chunk length %d, < size of chunk descriptor]", separator, i, size)
			return
		}
		padding := -size & 3
		if length < padding {
			d.addf("%s%d) [Bad chunk length %d, > remaining data in packet]", separator, i, size)
			return
		}
		d.require(b, size)
		d.addf("%s%d) [%s] ", separator, i, lookUp(sctpChunks, b[0], "Unknown chunk type: 0x%x"))
		if !d.sctpChunk(b[:size]) {
			return
		}
		if d.o.Verbose < 2 {
			separator = ", ("
		}
		b, length = b[size:], length-size
		d.require(b, padding)
		b, length = b[padding:], length-padding
	}
}

// sctpChunk appends the part of a chunk after its type. It returns false if the chunk is too short.
func (d *Dissector) sctpChunk(b []byte) bool {
	isShort := func(n int) bool {
		if len(b) < 4+n {
			d.addf("bogus chunk length %d]", len(b))
			return true
		}
		return false
	}
	switch b[0] {
	case 0: // DATA
		if flags := b[1] & 7; flags != 0 {
			d.add(bitNames(uint32(flags), []bit{{4, "(U)"}, {2, "(B)"}, {1, "(E)"}}, "", ""))
			d.add(" ")
		}
		if isShort(12) {
			return false
		}
		d.addf("[TSN: %d] [SID: %d] [SSEQ %d] ", d.u32(b, 4), d.u16(b, 8), d.u16(b, 10))
		d.addf("[PPID %s] ", lookUp(sctpPayloads, d.u32(b, 12), "0x%x"))
		if isShort(13) {
			return false
		}
		if d.o.Verbose > 1 && d.u32(b, 12) != 3 { // tcpdump prints more of M3UA
			d.add("[Payload")
			if d.showsUnknown() {
				d.add(":")
				d.unknown(b[16:])
			}
			d.add("]")
		}
	case 1, 2: // INIT, INIT ACK
		if isShort(16) {
			return false
		}
		d.addf("[init tag: %d] [rwnd: %d] [OS: %d] [MIS: %d] [init TSN: %d] ",
			d.u32(b, 4), d.u32(b, 8), d.u16(b, 12), d.u16(b, 14), d.u32(b, 16))
	case 3: // SACK
		if isShort(12) {
			return false
		}
		ack, gaps, twice := d.u32(b, 4), int(d.u16(b, 12)), int(d.u16(b, 14))
		d.addf("[cum ack %d] [a_rwnd %d] [#gap acks %d] [#dup tsns %d] ", ack, d.u32(b, 8), gaps, twice)
		for i, rest := 1, b[16:]; i <= gaps+twice && len(rest) > 0; i, rest = i+1, rest[4:] {
			if len(rest) < 4 {
				d.addf("bogus chunk length %d]", len(b))
				return false
			}
			if i <= gaps {
				d.addf("\n\t\t[gap ack block #%d: start = %d, end = %d] ", i, ack+uint32(d.u16(rest, 0)), ack+uint32(d.u16(rest, 2)))
			} else {
				d.addf("\n\t\t[dup TSN #%d: %d] ", i-gaps, d.u32(rest, 0))
			}
		}
	}
	return true
}
