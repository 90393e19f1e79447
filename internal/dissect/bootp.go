package dissect

var bootpOperations = map[uint8]string{1: "Request", 2: "Reply"}

// bootpHeader is how many bytes come before the options.
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
	d.u16(b, 10) // tcpdump wants the header up to its flags
	d.addf(", length %d", length)
	if d.o.Verbose == 0 || d.ended {
		return
	}
	if hardware != 1 {
		d.addf(", htype %d", hardware)
	}
	if !ethernet {
		d.addf(", hlen %d", size)
	}
	if hops := d.u8(b, 3); hops > 0 {
		d.addf(", hops %d", hops)
	}
	d.addf(", xid 0x%x", d.u32(b, 4))
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
	const cookie = 0x63825363
	if d.u32(b, bootpHeader) != cookie {
		return
	}
	d.addf("\n\t  Vendor-rfc1048 Extensions\n\t    Magic Cookie 0x%08x", uint32(cookie))
	d.dhcpOptions(skip(b, bootpHeader+4))
}

// bootpText appends a name, if there is one.
func (d *Dissector) bootpText(name string, b []byte, at, size int) {
	if d.u8(b, at) == 0 || d.ended {
		return
	}
	text := limit(skip(b, at), size)
	for i, c := range text {
		if c == 0 {
			text = text[:i]
			break
		}
	}
	d.addf("\n\t  %s \"", name)
	d.quoted(text)
	d.add("\"")
}

// dhcpNames are the options that are decoded. The first other option ends the list.
var dhcpNames = map[uint8]string{1: "Subnet-Mask", 3: "Default-Gateway", 6: "Domain-Name-Server", 12: "Hostname", 15: "Domain-Name",
	28: "BR", 50: "Requested-IP", 51: "Lease-Time", 53: "DHCP-Message", 54: "Server-ID", 57: "MSZ", 58: "RN", 59: "RB"}

var dhcpMessages = map[uint8]string{1: "Discover", 2: "Offer", 3: "Request", 4: "Decline", 5: "ACK", 6: "NACK", 7: "Release", 8: "Inform"}

func (d *Dissector) dhcpOptions(b []byte) {
	for len(b) >= 2 && !d.ended {
		kind, size := b[0], int(b[1])
		name, known := dhcpNames[kind]
		value := limit(b[2:], size)
		if !known || len(value) < size {
			return
		}
		switch {
		case kind == 53 && size == 1:
			d.dhcpOption(name, kind, size)
			d.add(lookUp(dhcpMessages, value[0], "Unknown (%d)"))
		case kind == 12 || kind == 15:
			d.dhcpOption(name, kind, size)
			d.add("\"")
			d.quoted(value)
			d.add("\"")
		case (kind == 51 || kind == 58 || kind == 59) && size == 4:
			d.dhcpOption(name, kind, size)
			d.addf("%d", d.u32(value, 0))
		case kind == 57 && size == 2:
			d.dhcpOption(name, kind, size)
			d.addf("%d", d.u16(value, 0))
		case (kind < 12 || kind == 28 || kind == 50 || kind == 54) && size > 0 && size%4 == 0:
			d.dhcpOption(name, kind, size)
			for at := 0; at < size; at += 4 {
				if at > 0 {
					d.add(",")
				}
				d.addf("%s", d.ip4Addr(value, at))
			}
		default:
			return
		}
		b = b[2+size:]
	}
}

func (d *Dissector) dhcpOption(name string, kind uint8, size int) {
	d.addf("\n\t    %s (%d), length %d: ", name, kind, size)
}
