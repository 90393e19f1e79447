package dissect

import "fmt"

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
		return false
	}
	if m.at+10 > len(m.b) {
		return false
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

// relativeTime formats a number of seconds as 1w2d3h4m5s.
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
