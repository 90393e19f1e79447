package dissect

import "fmt"

// Types of records whose data are shown.
const (
	dnsA      = 1
	dnsNS     = 2
	dnsCNAME  = 5
	dnsSOA    = 6
	dnsPTR    = 12
	dnsMX     = 15
	dnsTXT    = 16
	dnsAAAA   = 28
	dnsSRV    = 33
	dnsDNAME  = 39
	dnsOPT    = 41
	dnsUNSPEC = 103
	dnsTSIG   = 250
	dnsURI    = 256
)

// record appends one record: its type and the known parts of its data. With -v its name comes
// first.
func (d *Dissector) record(m *message) {
	if d.o.Verbose > 0 {
		d.add(" ")
		m.at = d.requireName(m, m.at)
	} else if !m.skipName() {
		d.truncated()
	}
	d.require(m.b, m.at+10)
	b := m.b[m.at:]
	typ, ttl, size := d.u16(b, 0), d.u32(b, 4), int(d.u16(b, 8))
	class, isFlush := m.class(d.u16(b, 2))
	if class != 1 && typ != dnsOPT {
		d.add(" ")
		d.add(lookUp(dnsClasses, class, "(Class %d)"))
	}
	if isFlush {
		d.add(" (Cache flush)")
	}
	if d.o.Verbose > 2 && typ != dnsOPT {
		d.addf(" [%s]", relativeTime(ttl))
	}
	d.add(" ")
	d.add(lookUp(dnsTypes, typ, "Type%d"))
	m.at += 10
	d.require(m.b, m.at+size)
	if typ == dnsOPT {
		d.dnsOptions(b[10:10+size], class, ttl)
	} else {
		d.recordData(m, typ, size)
	}
	m.at += size
}

// recordData appends the data of a record: size bytes at m.at.
func (d *Dissector) recordData(m *message, typ uint16, size int) {
	b := m.b[m.at:]
	name := func(at int) (end int) {
		d.add(" ")
		return d.requireName(m, m.at+at) - m.at
	}
	switch typ {
	case dnsA:
		d.address(" ", d.ip4Addr(b, 0))
	case dnsAAAA:
		d.address(" ", d.ip6Addr(b, 0))
	case dnsNS, dnsCNAME, dnsPTR, dnsDNAME:
		name(0)
	case dnsSOA:
		if d.o.Verbose == 0 {
			break
		}
		end := name(name(0))
		d.require(b, end+20)
		for i := range 5 {
			d.addf(" %d", d.u32(b, end+4*i))
		}
	case dnsMX:
		d.require(b, 2)
		name(2)
		d.addf(" %d", d.u16(b, 0))
	case dnsTXT:
		for at := 0; at < size; {
			n := int(b[at])
			at++
			d.add(" \"")
			d.quoted(limit(b[at:], n))
			d.require(b, at+n)
			d.add("\"")
			at += n
		}
	case dnsSRV:
		d.require(b, 6)
		name(6)
		d.addf(":%d %d %d", d.u16(b, 4), d.u16(b, 0), d.u16(b, 2))
	case dnsURI:
		d.require(b[:size], 4)
		d.addf(" %d %d ", d.u16(b, 0), d.u16(b, 2))
		d.quoted(b[4:size])
	case dnsUNSPEC:
		d.quoted(b[:size])
	case dnsTSIG:
		if d.o.Verbose > 0 {
			d.signature(b, name(0))
		}
	}
}

// signature appends the data of a TSIG record after its algorithm's name.
func (d *Dissector) signature(b []byte, at int) {
	at += 6 // the time
	for _, field := range []string{"fudge", "maclen", "origid", "error", "otherlen"} {
		value := d.u16(b, at)
		d.addf(" %s=%d", field, value)
		if at += 2; field == "maclen" {
			at += int(value)
		}
	}
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
