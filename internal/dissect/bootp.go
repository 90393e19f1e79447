package dissect

import "bytes"

var bootpOperations = map[uint8]string{1: "Request", 2: "Reply"}

// bootpHeader is the number of bytes before the options.
const bootpHeader = 236

// bootp appends a message of BOOTP (RFC 951) or DHCP (RFC 2131) of length bytes.
func (d *Dissector) bootp(b []byte, length int) {
	d.proto = "bootp"
	d.addf("BOOTP/DHCP, %s", lookUp(bootpOperations, d.u8(b, 0), "unknown (0x%02x)"))
	hardware, size := d.u8(b, 1), d.u8(b, 2)
	ethernet := hardware == 1 && size == 6
	if ethernet && d.u8(b, 0) == 1 {
		d.addf(" from %s", d.mac(b, 28))
	}
	d.addf(", length %d", length)
	if d.o.Verbose == 0 {
		return
	}
	d.u16(b, 8) // tcpdump requires the header up to the seconds
	if hardware != 1 {
		d.addf(", htype %d", hardware)
	}
	if !ethernet {
		d.addf(", hlen %d", size)
	}
	if hops := d.u8(b, 3); hops > 0 {
		d.addf(", hops %d", hops)
	}
	if id := d.u32(b, 4); id != 0 {
		d.addf(", xid 0x%x", id)
	}
	if seconds := d.u16(b, 8); seconds > 0 {
		d.addf(", secs %d", seconds)
	}
	flags := d.u16(b, 10)
	d.addf(", Flags [%s]", map[bool]string{true: "Broadcast", false: "none"}[flags&0x8000 != 0])
	if d.o.Verbose > 1 {
		d.addf(" (0x%04x)", flags)
	}
	for i, name := range []string{"Client", "Your", "Server", "Gateway"} {
		if d.u32(b, 12+4*i) != 0 {
			d.addf("\n\t  %s-IP %s", name, d.ip4Addr(b, 12+4*i))
		}
	}
	if ethernet {
		d.addf("\n\t  Client-Ethernet-Address %s", d.mac(b, 28))
	}
	d.bootpText("sname", b, 44, 64)
	d.bootpText("file", b, 108, 128)
	switch cookie := d.u32(b, bootpHeader); cookie {
	case 0:
	case 0x63825363:
		d.addf("\n\t  Vendor-rfc1048 Extensions\n\t    Magic Cookie 0x%08x", cookie)
		d.dhcpOptions(skip(b, bootpHeader+4), length-bootpHeader-4)
	case 0x434d5500: // of Carnegie Mellon University, before options were standardized
	default:
		d.addf("\n\t  Vendor-#0x%x", cookie)
	}
}

// bootpText appends a name, if there is one.
func (d *Dissector) bootpText(name string, b []byte, at, size int) {
	if d.u8(b, at) == 0 {
		return
	}
	text, _, isWhole := bytes.Cut(limit(skip(b, at), size), []byte{0})
	d.addf("\n\t  %s ", name)
	d.inQuotes(text)
	if !isWhole {
		d.truncated()
	}
}
