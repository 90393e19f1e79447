package dissect

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

// Flags of a DNS message (RFC 1035, 4035), besides the operation and the error.
const (
	dnsResponse           = 0x8000
	dnsAuthoritative      = 0x0400
	dnsTruncated          = 0x0200
	dnsRecursionDesired   = 0x0100
	dnsRecursionAvailable = 0x0080
	dnsAuthentic          = 0x0020
	dnsCheckingDisabled   = 0x0010

	dnsUnusual = 0x06cf // flags that requests do not have, and the error
)

// A message is a DNS message; names in it can point to other positions in it.
type message struct {
	b           []byte
	at          int // offset of the next byte to read
	labels      int // number of labels that skipName has skipped
	isMulticast bool
}

// counts are the numbers of a message's questions, and of its records by section.
type counts struct{ questions, answers, authorities, additional int }

// dnsStream appends a message of length bytes in a TCP segment, which begins with its length.
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
func (d *Dissector) dns(b []byte, length int, isMulticast bool) {
	d.proto = "domain"
	if length < 12 {
		d.addf("domain [length %d < 12]", length)
		d.invalid()
		return
	}
	d.require(b, 12)
	m := &message{b: b, at: 12, isMulticast: isMulticast}
	flags := d.u16(b, 2)
	n := counts{int(d.u16(b, 4)), int(d.u16(b, 6)), int(d.u16(b, 8)), int(d.u16(b, 10))}
	d.number("", uint64(d.u16(b, 0)))
	d.add(dnsOperations[flags>>11&15])
	if flags&dnsResponse != 0 {
		d.dnsResponse(m, flags, n)
	} else {
		d.dnsRequest(m, flags, n)
	}
	d.addf(" (%d)", length)
}

func (d *Dissector) dnsRequest(m *message, flags uint16, n counts) {
	if flags&dnsRecursionDesired != 0 {
		d.add("+")
	}
	if flags&dnsCheckingDisabled != 0 {
		d.add("%")
	}
	if flags&dnsUnusual != 0 {
		d.addf(" [b2&3=0x%x]", flags)
	}
	count := func(n, usual int, unit string) {
		if n != usual {
			d.addf(" [%d%s]", n, unit)
		}
	}
	if flags>>11&15 == 1 { // an inverse query has an answer
		count(n.questions, 0, "q")
		count(n.answers, 1, "a")
	} else {
		count(n.answers, 0, "a")
		count(n.questions, 1, "q")
	}
	count(n.authorities, 0, "n")
	count(n.additional, 0, "au")
	for i := range n.questions {
		if i > 0 && m.at >= len(m.b) {
			d.truncated()
		}
		d.question(m)
	}
	if d.o.Verbose > 1 {
		d.records(m, n.answers, "")
		d.records(m, n.authorities, " ns:")
		d.records(m, n.additional, " ar:")
	}
}

func (d *Dissector) dnsResponse(m *message, flags uint16, n counts) {
	d.add(lookUp(dnsErrors, m.errorCode(n), " Resp%d"))
	marks := []bit{{dnsAuthoritative, "*"}, {dnsRecursionAvailable, "-"}, {dnsTruncated, "|"}, {dnsAuthentic, "$"}}
	d.add(bitNames(uint32(flags^dnsRecursionAvailable), marks, "", "")) // a dash: it is not available
	if n.questions != 1 {
		d.addf(" [%dq]", n.questions)
	}
	for i := range n.questions {
		if i > 0 {
			d.add(",")
		}
		if d.o.Verbose > 1 {
			d.add(" q:")
			d.question(m)
			continue
		}
		if !m.skipName() {
			d.truncated()
		}
		m.at += 4
	}
	d.number(" ", uint64(n.answers))
	d.number("/", uint64(n.authorities))
	d.number("/", uint64(n.additional))
	d.records(m, n.answers, "")
	if d.o.Verbose > 1 {
		d.records(m, n.authorities, " ns:")
		d.records(m, n.additional, " ar:")
	}
}

// records appends n records with commas between them.
func (d *Dissector) records(m *message, n int, title string) {
	for i := range n {
		if (i > 0 || title != "") && m.at >= len(m.b) {
			d.truncated()
		}
		if i > 0 {
			d.add(",")
		} else {
			d.add(title)
		}
		d.record(m)
	}
}

// errorCode returns the error code of a response; its upper bits are in the record of EDNS.
func (m *message) errorCode(n counts) uint16 {
	code := uint16(m.b[3] & 15)
	ahead := message{b: m.b, at: m.at}
	for range n.questions {
		if !ahead.skipName() {
			return code
		}
		ahead.at += 4
	}
	records := n.answers + n.authorities
	for i := range records + n.additional {
		if !ahead.skipName() || ahead.at+10 > len(ahead.b) {
			return code
		}
		r := ahead.b[ahead.at:]
		if i >= records && r[0] == 0 && r[1] == 41 {
			return code | uint16(r[4])<<4
		}
		ahead.at += 10 + int(r[8])<<8 + int(r[9])
	}
	return code
}

// question appends a question: its type, its class and its name.
func (d *Dissector) question(m *message) {
	start := m.at
	if !m.skipName() {
		d.truncated()
	}
	d.require(m.b, m.at+4)
	d.add(" ")
	d.add(lookUp(dnsTypes, d.u16(m.b, m.at), "Type%d"))
	class, isUnicast := m.class(d.u16(m.b, m.at+2))
	if class != 1 {
		d.add(" ")
		d.add(lookUp(dnsClasses, class, "(Class %d)"))
	}
	switch {
	case isUnicast:
		d.add(" (QU)")
	case m.isMulticast:
		d.add(" (QM)")
	}
	d.add("? ")
	m.at = d.requireName(m, start) + 4
}

// class returns the class in a field of a question or a record. In multicast DNS its upper bit is a
// flag.
func (m *message) class(field uint16) (class uint16, hasFlag bool) {
	if !m.isMulticast {
		return field, false
	}
	return field &^ 0x8000, field&0x8000 != 0
}
