package dissect

import "net/netip"

// groupChanges are the kinds of records in reports about multicast groups.
var groupChanges = map[uint8]string{1: "is_in", 2: "is_ex", 3: "to_in", 4: "to_ex", 5: "allow", 6: "block"}

// groupRecords appends the records of a report about multicast groups: IGMPv3 (RFC 3376) and MLDv2
// (RFC 3810) differ in the size of addresses, 4 or 16 bytes. unknown formats a kind of record
// without a name.
func (d *Dissector) groupRecords(b []byte, length, size int, unknown string) {
	groups := int(d.u16(b, 6))
	d.addf(", %d group record(s)", groups)
	if d.o.Verbose == 0 {
		return
	}
	head := 4 + size
	for at := 8; groups > 0; groups-- {
		if length < at+head {
			d.add(" [invalid number of groups]")
			return
		}
		d.address(" [gaddr ", d.ipAddr(b, at+4, size))
		d.addf(" %s", lookUp(groupChanges, d.u8(b, at), unknown))
		n := int(d.u16(b, at+2))
		if length < at+head+size*n {
			d.addf(" [invalid number of sources %d]", n)
			return
		}
		d.groupSources(b, at+head, n, size)
		at += head + size*n
		d.add("]")
	}
}

// groupSources appends the n sources of a group, with addresses of size bytes; without -vv only
// their number.
func (d *Dissector) groupSources(b []byte, at, n, size int) {
	if d.o.Verbose < 2 {
		d.addf(", %d source(s)", n)
		return
	}
	d.add(" {")
	for i := range n {
		d.address(" ", d.ipAddr(b, at+size*i, size))
	}
	d.add(" }")
}

// ipAddr returns an address of 4 or 16 bytes.
func (d *Dissector) ipAddr(b []byte, at, size int) netip.Addr {
	if size == 4 {
		return d.ip4Addr(b, at)
	}
	return d.ip6Addr(b, at)
}
