package dissect

import (
	"encoding/hex"
	"fmt"
)

var (
	dnsOperations = [16]string{"", " inv_q", " stat", " op3", " notify", " update", " op6", " op7", " op8", " updateA",
		" updateD", " updateDA", " updateM", " updateMA", " zoneInit", " zoneRef"}
	dnsErrors = map[uint16]string{0: "", 1: " FormErr", 2: " ServFail", 3: " NXDomain", 4: " NotImp", 5: " Refused",
		6: " YXDomain", 7: " YXRRSet", 8: " NXRRSet", 9: " NotAuth", 10: " NotZone", 11: " Resp11", 12: " Resp12",
		13: " Resp13", 14: " Resp14", 15: " NoChange", 16: " BadVers", 23: " BadCookie"}
	dnsTypes = map[uint16]string{1: "A", 2: "NS", 3: "MD", 4: "MF", 5: "CNAME", 6: "SOA", 7: "MB", 8: "MG", 9: "MR",
		10: "NULL", 11: "WKS", 12: "PTR", 13: "HINFO", 14: "MINFO", 15: "MX", 16: "TXT", 17: "RP", 18: "AFSDB", 19: "X25",
		20: "ISDN", 21: "RT", 22: "NSAP", 23: "NSAP_PTR", 24: "SIG", 25: "KEY", 26: "PX", 27: "GPOS", 28: "AAAA", 29: "LOC",
		30: "NXT", 31: "EID", 32: "NIMLOC", 33: "SRV", 34: "ATMA", 35: "NAPTR", 36: "KX", 37: "CERT", 38: "A6", 39: "DNAME",
		40: "SINK", 41: "OPT", 42: "APL", 43: "DS", 44: "SSHFP", 45: "IPSECKEY", 46: "RRSIG", 47: "NSEC", 48: "DNSKEY",
		99: "SPF", 100: "UINFO", 101: "UID", 102: "GID", 103: "UNSPEC", 249: "TKEY", 250: "TSIG", 251: "IXFR", 252: "AXFR",
		253: "MAILB", 254: "MAILA", 255: "ANY", 256: "URI"}
	dnsClasses = map[uint16]string{3: "CHAOS", 4: "HS", 255: "ANY"}
)

// A message is a DNS message; names in it can point to other positions in it.
type message struct {
	b         []byte
	at        int // of the next byte to read
	labels    int // that were skipped
	multicast bool
}

// dnsStream appends a message of length bytes in a TCP segment, where its length comes first.
func (d *Dissector) dnsStream(b []byte, length int) {
	d.proto = "domain"
	if length < 2 {
		d.addf(" [DNS over TCP: length %d < 2]", length)
		d.invalid()
		return
	}
	if prefix := int(d.u16(b, 0)); prefix != length-2 {
		d.addf(" [prefix length(%d) != length(%d)]", prefix, length-2)
		d.invalid()
		return
	}
	d.add(" ")
	d.dns(skip(b, 2), length-2, false)
}

// dns appends a message of DNS or multicast DNS.
func (d *Dissector) dns(b []byte, length int, multicast bool) {
	d.proto = "domain"
	if length < 12 {
		d.addf("domain [length %d < 12]", length)
		d.invalid()
		return
	}
	if d.ended || !d.has(b, 12) {
		return
	}
	m := &message{b: b, at: 12, multicast: multicast}
	flags := d.u16(b, 2)
	questions, answers, authorities, additional := int(d.u16(b, 4)), int(d.u16(b, 6)), int(d.u16(b, 8)), int(d.u16(b, 10))
	d.number("", uint64(d.u16(b, 0)))
	d.add(dnsOperations[flags>>11&15])
	var whole bool
	if flags&0x8000 != 0 {
		d.add(lookUp(dnsErrors, m.errorCode(questions, answers+authorities, additional), " Resp%d"))
		for _, mark := range []struct {
			shown bool
			text  string
		}{{flags&0x400 != 0, "*"}, {flags&0x80 == 0, "-"}, {flags&0x200 != 0, "|"}, {flags&0x20 != 0, "$"}} {
			if mark.shown {
				d.add(mark.text)
			}
		}
		whole = d.dnsResponse(m, questions, answers, authorities, additional)
	} else {
		whole = d.dnsRequest(m, flags, questions, answers, authorities, additional)
	}
	if !whole {
		d.truncated()
	}
	d.addf(" (%d)", length)
}

func (d *Dissector) dnsRequest(m *message, flags uint16, questions, answers, authorities, additional int) bool {
	if flags&0x100 != 0 {
		d.add("+")
	}
	if flags&0x10 != 0 {
		d.add("%")
	}
	if flags&0x6cf != 0 {
		d.addf(" [b2&3=0x%x]", flags)
	}
	count := func(n, usual int, unit string) {
		if n != usual {
			d.addf(" [%d%s]", n, unit)
		}
	}
	if flags>>11&15 == 1 { // an inverse query has an answer
		count(questions, 0, "q")
		count(answers, 1, "a")
	} else {
		count(answers, 0, "a")
		count(questions, 1, "q")
	}
	count(authorities, 0, "n")
	count(additional, 0, "au")
	for i := range questions {
		if i > 0 && m.at >= len(m.b) || d.ended || !d.question(m) {
			return d.ended
		}
	}
	return d.o.Verbose < 2 || d.records(m, answers, "") && d.records(m, authorities, " ns:") && d.records(m, additional, " ar:")
}

func (d *Dissector) dnsResponse(m *message, questions, answers, authorities, additional int) bool {
	if questions != 1 {
		d.addf(" [%dq]", questions)
	}
	for i := range questions {
		if i > 0 {
			d.add(",")
		}
		if d.ended {
			return true
		}
		if d.o.Verbose > 1 {
			d.add(" q:")
			if !d.question(m) {
				return false
			}
		} else if !m.skipName() {
			return false
		} else {
			m.at += 4
		}
	}
	d.number(" ", uint64(answers))
	d.number("/", uint64(authorities))
	d.number("/", uint64(additional))
	return d.records(m, answers, "") &&
		(d.o.Verbose < 2 || d.records(m, authorities, " ns:") && d.records(m, additional, " ar:"))
}

// records appends n records with commas between them. It returns false if they do not end in the
// bytes.
func (d *Dissector) records(m *message, n int, title string) bool {
	for i := range n {
		switch {
		case d.ended:
			return true
		case i > 0 && m.at >= len(m.b), i == 0 && title != "" && m.at >= len(m.b):
			return false
		case i > 0:
			d.add(",")
		default:
			d.add(title)
		}
		if !d.record(m) {
			return false
		}
	}
	return true
}

// errorCode returns the error code of a response; its upper bits are in an additional record.
func (m *message) errorCode(questions, records, additional int) uint16 {
	code := uint16(m.b[3] & 15)
	look := message{b: m.b, at: m.at}
	for range questions {
		if !look.skipName() {
			return code
		}
		look.at += 4
	}
	for i := range records + additional {
		if !look.skipName() || look.at+10 > len(look.b) {
			return code
		}
		r := look.b[look.at:]
		if i >= records && r[0] == 0 && r[1] == 41 {
			return code | uint16(r[4])<<4
		}
		look.at += 10 + int(r[8])<<8 + int(r[9])
	}
	return code
}

// maxSkipped is the most labels of a message that are skipped: more than any answer has.
const maxSkipped = 2000

// skipName skips a name. It returns false if the name does not end in the bytes.
func (m *message) skipName() bool {
	for m.at < len(m.b) && m.labels < maxSkipped {
		m.labels++
		c := int(m.b[m.at])
		m.at++
		switch c >> 6 {
		case 0:
			if c == 0 {
				return true
			}
			m.at += c
		case 3:
			m.at++
			return true
		case 1:
			if c != 0x41 || m.at >= len(m.b) {
				return false
			}
			m.at += 1 + bitLabel(m.b[m.at])
		default:
			return false
		}
	}
	return false
}

// bitLabel is the size in bytes of a label with the given number of bits.
func bitLabel(bits byte) int {
	if bits == 0 {
		return 32
	}
	return (int(bits) + 7) / 8
}

// name appends the name at an offset of the message and returns the offset after it. It returns
// false if the name does not end in the bytes or is invalid.
func (d *Dissector) domainName(m *message, at int) (end int, ok bool) {
	b, lowest, letters := m.b, at, 0
	for jumped := false; !d.ended; {
		if at >= len(b) {
			return 0, false
		}
		c := int(b[at])
		at++
		switch c >> 6 {
		case 0:
			if c == 0 {
				if letters == 0 {
					d.add(".")
				}
				if letters > 255 {
					d.add("<DOMAIN NAME TOO LONG>")
				}
				if !jumped {
					end = at
				}
				return end, true
			}
			if shown := min(c, 255-letters); shown > 0 {
				d.quoted(limit(skip(b, at), shown))
				if at+shown > len(b) {
					return 0, false
				}
			}
			d.spend(4)
			at, letters = at+c, letters+c
			if letters > 255 && jumped {
				d.add("<DOMAIN NAME TOO LONG>")
				return end, true
			}
			if letters <= 255 {
				d.add(".")
			}
			letters++
		case 3:
			if at >= len(b) {
				return 0, false
			}
			if !jumped {
				end, jumped = at+1, true
			}
			// A pointer must lead backwards. So every name ends, and costs no more than its
			// letters.
			target := c<<8&0x3f00 | int(b[at])
			if target >= lowest {
				d.add("<BAD PTR>")
				return 0, false
			}
			at, lowest = target, target
			d.spend(8)
		case 1:
			if c != 0x41 {
				d.addf("<ELT %d>", c&0x3f)
				return 0, false
			}
			if at >= len(b) || at+1+bitLabel(b[at]) > len(b) {
				return 0, false
			}
			n, size := bitLabel(b[at]), int(b[at])
			if size == 0 {
				size = 256
			}
			d.addf("\\[x%s/%d].", hex.EncodeToString(b[at+1:at+1+n]), size)
			at, letters = at+1+n, letters+n+1
		default:
			d.add("<BAD LABEL TYPE>")
			return 0, false
		}
	}
	return 0, false
}

func (d *Dissector) question(m *message) bool {
	start := m.at
	if !m.skipName() || m.at+4 > len(m.b) {
		return false
	}
	d.add(" ")
	d.add(lookUp(dnsTypes, d.u16(m.b, m.at), "Type%d"))
	class := d.u16(m.b, m.at+2)
	unicast := m.multicast && class&0x8000 != 0
	if m.multicast {
		class &^= 0x8000
	}
	if class != 1 {
		d.add(" ")
		d.add(lookUp(dnsClasses, class, "(Class %d)"))
	}
	switch {
	case unicast:
		d.add(" (QU)")
	case m.multicast:
		d.add(" (QM)")
	}
	d.add("? ")
	end, ok := d.domainName(m, start)
	m.at = end + 4
	return ok
}

// record appends one record: its type and the known parts of its data. With -v its name comes
// first.
func (d *Dissector) record(m *message) bool {
	if d.o.Verbose > 0 {
		d.add(" ")
		end, ok := d.domainName(m, m.at)
		if !ok {
			return false
		}
		m.at = end
	} else if !m.skipName() {
		m.at = len(m.b)
		return true
	}
	if m.at+10 > len(m.b) {
		m.at = len(m.b)
		return true
	}
	b := m.b[m.at:]
	typ, class, ttl, size := d.u16(b, 0), d.u16(b, 2), d.u32(b, 4), int(d.u16(b, 8))
	flush := m.multicast && class&0x8000 != 0
	if m.multicast {
		class &^= 0x8000
	}
	if class != 1 && typ != 41 {
		d.add(" ")
		d.add(lookUp(dnsClasses, class, "(Class %d)"))
	}
	if flush {
		d.add(" (Cache flush)")
	}
	if d.o.Verbose > 2 && typ != 41 {
		d.addf(" [%s]", relativeTime(ttl))
	}
	d.add(" ")
	d.add(lookUp(dnsTypes, typ, "Type%d"))
	at := m.at + 10
	m.at = at + size
	if m.at > len(m.b) {
		return false
	}
	return d.recordData(m, typ, class, ttl, at, size)
}

// recordData appends the data of a record: size bytes at an offset of the message.
func (d *Dissector) recordData(m *message, typ, class uint16, ttl uint32, at, size int) bool {
	b := m.b[at:]
	name := func(at int) (int, bool) {
		d.add(" ")
		return d.domainName(m, at)
	}
	switch typ {
	case 1:
		if len(b) < 4 {
			return false
		}
		d.address(" ", d.ip4Addr(b, 0))
	case 28:
		if len(b) < 16 {
			return false
		}
		d.address(" ", d.ip6Addr(b, 0))
	case 2, 5, 12, 39:
		_, ok := name(at)
		return ok
	case 6:
		if d.o.Verbose == 0 {
			break
		}
		end, ok := name(at)
		if ok {
			end, ok = name(end)
		}
		if !ok || end+20 > len(m.b) {
			return false
		}
		for i := range 5 {
			d.addf(" %d", d.u32(m.b, end+4*i))
		}
	case 15:
		if len(b) < 2 {
			return false
		}
		_, ok := name(at + 2)
		d.addf(" %d", d.u16(b, 0))
		return ok
	case 16:
		for text := b[:size]; len(text) > 0 && !d.ended; {
			n := int(text[0])
			d.add(" \"")
			d.quoted(limit(b[size-len(text)+1:], n))
			if size-len(text)+1+n > len(b) {
				return false
			}
			d.add("\"")
			text = skip(text, n+1)
		}
	case 33:
		if len(b) < 6 {
			return false
		}
		_, ok := name(at + 6)
		d.addf(":%d %d %d", d.u16(b, 4), d.u16(b, 0), d.u16(b, 2))
		return ok
	case 256:
		if size < 4 {
			return false
		}
		d.addf(" %d %d ", d.u16(b, 0), d.u16(b, 2))
		d.quoted(b[4:size])
	case 41:
		d.addf(" UDPsize=%d", class)
		if ttl&0x8000 != 0 {
			d.add(" DO")
		}
		if size > 0 {
			d.add(" [")
			if !d.dnsOptions(b[:size]) {
				return false
			}
			d.add("]")
		}
	case 103:
		d.quoted(b[:size])
	case 250:
		return d.o.Verbose == 0 || d.signature(m, at)
	}
	return true
}

// signature appends the data of a TSIG record.
func (d *Dissector) signature(m *message, at int) bool {
	d.add(" ")
	at, ok := d.domainName(m, at)
	if !ok {
		return false
	}
	at += 6
	for _, field := range []string{"fudge", "maclen", "origid", "error", "otherlen"} {
		if at+2 > len(m.b) {
			return false
		}
		value := d.u16(m.b, at)
		d.addf(" %s=%d", field, value)
		if at += 2; field == "maclen" {
			at += int(value)
		}
	}
	return true
}

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

// dnsOptions appends the options of EDNS (RFC 6891).
func (d *Dissector) dnsOptions(b []byte) bool {
	for len(b) > 0 && !d.ended {
		if len(b) < 2 {
			return false
		}
		code := d.u16(b, 0)
		d.add(lookUp(dnsOptionNames, code, "Opt%d"))
		if len(b) < 4 || len(b) < 4+int(d.u16(b, 2)) {
			return false
		}
		n := int(d.u16(b, 2))
		if n > 0 {
			d.add(" ")
			d.dnsOption(code, b[4:4+n])
		}
		if b = b[4+n:]; len(b) > 0 {
			d.add(",")
		}
	}
	return true
}

func (d *Dissector) dnsOption(code uint16, b []byte) {
	n := len(b)
	switch {
	case code == 8:
		d.clientSubnet(b)
	case code == 10 && n >= 8 && n <= 40 && (n == 8 || n >= 16):
		d.add(hex.EncodeToString(b[:8]))
		if n > 8 {
			d.addf(" %x", b[8:])
		}
	case code == 11 && n == 2:
		d.addf("%0.1f sec", float64(d.u16(b, 0))/10)
	case code == 9 && n == 4:
		d.addf("%d sec", d.u32(b, 0))
	case code == 12:
		d.addf("(%d)", n)
	case code == 14 && n%2 == 0:
		for i := 0; i < n && !d.ended; i += 2 {
			if i > 0 {
				d.add(" ")
			}
			d.number("", uint64(d.u16(b, i)))
		}
	case code >= 9 && code <= 11 || code == 14:
		d.invalid()
	case code >= 5 && code <= 7:
		for i, c := range limit(b, maxText) {
			if i > 0 {
				d.add(" ")
			}
			d.add(lookUp(dnsAlgorithms[code], c, "Alg_%d"))
		}
	case code == 13:
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

// relativeTime is a number of seconds in the form 1w2d3h4m5s.
func relativeTime(seconds uint32) string {
	if seconds == 0 {
		return "0s"
	}
	var s string
	for _, unit := range []struct {
		seconds uint32
		name    string
	}{{365 * 86400, "y"}, {7 * 86400, "w"}, {86400, "d"}, {3600, "h"}, {60, "m"}, {1, "s"}} {
		if n := seconds / unit.seconds; n > 0 {
			s += fmt.Sprint(n, unit.name)
			seconds %= unit.seconds
		}
	}
	return s
}
