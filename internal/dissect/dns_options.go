package dissect

import "encoding/hex"

var (
	dnsOptionNames = map[uint16]string{1: "LLQ", 2: "UL", 3: "NSID", 5: "DAU", 6: "DHU", 7: "N3U", 8: "ECS", 9: "EXPIRE",
		10: "COOKIE", 11: "KEEPALIVE", 12: "PADDING", 13: "CHAIN", 14: "KEY-TAG", 16: "CLIENT-TAG", 17: "SERVER-TAG"}
	dnsAlgorithms = map[uint16]map[byte]string{
		5: {0: "DELETE", 1: "RSAMD5", 2: "DH", 3: "DS", 5: "RSASHA1", 6: "DSA-NSEC3-SHA1", 7: "RSASHA1-NSEC3-SHA1",
			8: "RSASHA256", 10: "RSASHA512", 12: "ECC-GOST", 13: "ECDSAP256SHA256", 14: "ECDSAP384SHA384", 15: "ED25519",
			16: "ED448", 252: "INDIRECT", 253: "PRIVATEDNS", 254: "PRIVATEOID"},
		6: {1: "SHA-1", 2: "SHA-256", 3: "GOST_R_34.11-94", 4: "SHA-384"},
		7: {1: "SHA-1"},
	}
)

// dnsOptions appends the record of EDNS (RFC 6891): the fields that it has instead of a class and a
// time to live, and its options.
func (d *Dissector) dnsOptions(b []byte, udpSize uint16, flags uint32) {
	d.addf(" UDPsize=%d", udpSize)
	if flags&0x8000 != 0 {
		d.add(" DO")
	}
	if len(b) == 0 {
		return
	}
	d.add(" [")
	for len(b) > 0 {
		code := d.u16(b, 0)
		d.add(lookUp(dnsOptionNames, code, "Opt%d"))
		n := int(d.u16(b, 2))
		d.require(b, 4+n)
		if n > 0 {
			d.add(" ")
			d.dnsOption(code, b[4:4+n])
		}
		if b = b[4+n:]; len(b) > 0 {
			d.add(",")
		}
	}
	d.add("]")
}

func (d *Dissector) dnsOption(code uint16, b []byte) {
	n := len(b)
	switch {
	case code == 8: // client subnet
		d.clientSubnet(b)
	case code == 10 && n >= 8 && n <= 40 && (n == 8 || n >= 16):
		d.add(hex.EncodeToString(b[:8]))
		if n > 8 {
			d.addf(" %x", b[8:])
		}
	case code == 11 && n == 2: // keepalive
		d.addf("%0.1f sec", float64(d.u16(b, 0))/10)
	case code == 9 && n == 4: // expire
		d.addf("%d sec", d.u32(b, 0))
	case code == 12: // padding
		d.addf("(%d)", n)
	case code == 14 && n%2 == 0: // key tags
		for i := 0; i < n; i += 2 {
			if i > 0 {
				d.add(" ")
			}
			d.number("", uint64(d.u16(b, i)))
		}
	case code >= 9 && code <= 11 || code == 14: // of a wrong length
		d.invalid()
	case code >= 5 && code <= 7: // algorithms
		for i, c := range limit(b, maxText) {
			if i > 0 {
				d.add(" ")
			}
			d.add(lookUp(dnsAlgorithms[code], c, "Alg_%d"))
		}
	case code == 13: // chain
		d.domainName(&message{b: b}, 0)
	default:
		d.addf("%x", limit(b, maxText))
	}
}

// clientSubnet appends the address and the lengths of its prefixes (RFC 7871).
func (d *Dissector) clientSubnet(b []byte) {
	size := 0
	if len(b) >= 4 {
		size = map[uint16]int{1: 4, 2: 16}[d.u16(b, 0)]
	}
	if size == 0 || len(b)-4 > size || int(b[2]) > size*8 || int(b[3]) > size*8 || (int(b[2])+7)/8 != len(b)-4 {
		d.invalid()
		return
	}
	padded := make([]byte, size)
	copy(padded, b[4:])
	d.addf("%s/%d/%d", addr(padded), b[2], b[3])
}
