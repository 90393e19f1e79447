package dissect

import "github.com/gopacket/gopacket/layers"

func (d *Dissector) ah(b []byte, length int) {
	d.proto = "ah"
	if !d.has(b, 1) {
		return
	}
	d.add("AH")
	size := (int(d.u8(b, 1)) + 2) * 4
	d.add("(")
	if d.o.Verbose > 0 {
		d.addf("length=%d(%d-bytes),", d.u8(b, 1), size)
	}
	if reserved := d.u16(b, 2); reserved != 0 {
		d.addf("reserved=0x%x[MustBeZero],", reserved)
	}
	d.addf("spi=0x%08x,", d.u32(b, 4))
	d.addf("seq=0x%x,", d.u32(b, 8))
	d.add("icv=0x")
	if size > 12 {
		for at := 12; at < size && !d.ended; at += 4 {
			d.addf("%08x", d.u32(b, at))
		}
	}
	d.add("): ")
	if next := layers.IPProtocol(d.u8(b, 0)); !d.ended {
		d.ipPayload(next, skip(b, size), length-size)
	}
}

func (d *Dissector) esp(b []byte, length int) {
	d.proto = "esp"
	if !d.has(b, 9) {
		return
	}
	d.addf("ESP(spi=0x%08x", d.u32(b, 0))
	d.addf(",seq=0x%x)", d.u32(b, 4))
	d.addf(", length %d", length)
}
