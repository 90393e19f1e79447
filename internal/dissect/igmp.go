package dissect

import "fmt"

func (d *Dissector) igmp(b []byte, length int) {
	d.proto = "igmp"
	if d.o.Quiet {
		d.add("igmp")
		return
	}
	switch kind := d.u8(b, 0); kind {
	case 0x11:
		d.add("igmp query")
		d.igmpQuery(b, length)
	case 0x12:
		d.addf("igmp v1 report %s", d.ip4Addr(b, 4))
		if length != 8 {
			d.addf(" [len %d]", length)
		}
	case 0x16:
		d.addf("igmp v2 report %s", d.ip4Addr(b, 4))
	case 0x17:
		d.addf("igmp leave %s", d.ip4Addr(b, 4))
	case 0x22:
		d.add("igmp v3 report")
		if length < 16 || length&3 != 0 {
			d.addf(" [invalid len %d]", length)
		} else {
			d.groupRecords(b, length, 4, " [v3-report-#%d]")
		}
	case 0x13:
		d.addf("igmp dvmrp, length %d", length)
	case 0x14:
		d.addf("igmp pimv1, length %d", length)
	case 0x1e, 0x1f:
		name := map[uint8]string{0x1e: "mresp", 0x1f: "mtrace"}[kind]
		if length < 24 {
			d.addf(" [invalid len %d]", length)
			break
		}
		reply := d.ip4Addr(b, 16)
		d.addf("%s %d: %s to %s reply-to %s", name, d.u24(b, 21), d.ip4Addr(b, 8), d.ip4Addr(b, 12), reply)
		if reply.IsMulticast() {
			d.addf(" with-ttl %d", d.u8(b, 20))
		}
	default:
		d.addf("igmp-%d", kind)
	}
	if d.o.Verbose > 0 && length >= 4 && length <= len(b) && checksum(b[:length], 0) != 0 {
		d.addf(" bad igmp cksum %x!", d.u16(b, 2))
	}
}

func (d *Dissector) igmpQuery(b []byte, length int) {
	if length >= 12 {
		d.igmp3Query(b, length)
		return
	}
	switch limit := d.u8(b, 1); limit {
	case 0:
		d.add(" v1")
	case 100:
		d.add(" v2")
	default:
		d.addf(" v2 [max resp time %d]", limit)
	}
	if d.u32(b, 4) != 0 {
		d.addf(" [gaddr %s]", d.ip4Addr(b, 4))
	}
	if length != 8 {
		d.addf(" [len %d]", length)
	}
}

func (d *Dissector) igmp3Query(b []byte, length int) {
	d.add(" v3")
	if length&3 != 0 {
		d.addf(" [invalid len %d]", length)
		return
	}
	if code := int(d.u8(b, 1)); code != 100 {
		tenths := code
		if code >= 128 {
			tenths = (code&15 | 16) << (code>>4&7 + 3)
		}
		text := relativeTime(uint32(tenths / 10))
		if tenths < 600 {
			text = fmt.Sprintf("%.1fs", float64(tenths)/10)
		}
		d.addf(" [max resp time %s]", text)
	}
	if d.u32(b, 4) == 0 {
		return
	}
	d.address(" [gaddr ", d.ip4Addr(b, 4))
	if n := int(d.u16(b, 10)); n > 0 {
		if length < 12+4*n {
			d.add(" [invalid number of sources]")
		} else {
			d.groupSources(b, 12, n, 4)
		}
	}
	d.add("]")
}
