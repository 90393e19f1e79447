package dissect

// A dhcpForm is the format of the value of a DHCP option.
type dhcpForm int

const (
	dhcpBytes     dhcpForm = iota // in decimal, with dots between them
	dhcpAddresses                 // of IPv4
	dhcpPairs                     // of addresses
	dhcpSeconds                   // numbers of 32 bits
	dhcpSigned                    // signed numbers of 32 bits
	dhcpShorts                    // numbers of 16 bits
	dhcpFlags                     // a byte for yes or no
	dhcpText
)

// Options that dhcpOptions and dhcpOption treat by their kind, not by their format.
const (
	dhcpPad             = 0
	dhcpNetbiosNode     = 46
	dhcpOverload        = 52
	dhcpMessageType     = 53
	dhcpParameters      = 55
	dhcpClientID        = 61
	dhcpUserClass       = 77
	dhcpFQDN            = 81
	dhcpAgentInfo       = 82
	dhcpRoutesOption    = 121
	dhcpMicrosoftRoutes = 249
	dhcpEnd             = 255
)

// A dhcpKind is tcpdump's name of a kind of option (RFC 2132 and later ones), and its format. One
// without a format is dhcpBytes, unless dhcpOption treats it by its kind.
type dhcpKind struct {
	name string
	form dhcpForm
}

var dhcpKinds = map[uint8]dhcpKind{
	0: {name: "PAD"}, 1: {"Subnet-Mask", dhcpAddresses}, 2: {"Time-Zone", dhcpSigned}, 3: {"Default-Gateway", dhcpAddresses},
	4: {"Time-Server", dhcpAddresses}, 5: {"IEN-Name-Server", dhcpAddresses}, 6: {"Domain-Name-Server", dhcpAddresses},
	7: {"LOG", dhcpAddresses}, 8: {"CS", dhcpAddresses}, 9: {"LPR-Server", dhcpAddresses}, 10: {"IM", dhcpAddresses},
	11: {"RL", dhcpAddresses}, 12: {"Hostname", dhcpText}, 13: {"BS", dhcpShorts}, 14: {"DP", dhcpText}, 15: {"Domain-Name", dhcpText},
	16: {"SS", dhcpAddresses}, 17: {"RP", dhcpText}, 18: {"EP", dhcpText}, 19: {"IPF", dhcpFlags}, 20: {"SRT", dhcpFlags},
	21: {"PF", dhcpPairs}, 22: {"RSZ", dhcpShorts}, 23: {"TTL", dhcpBytes}, 24: {"MTU-Timeout", dhcpSeconds},
	25: {"MTU-Table", dhcpShorts}, 26: {"MTU", dhcpShorts}, 27: {"LSN", dhcpFlags}, 28: {"BR", dhcpAddresses}, 29: {"MD", dhcpFlags},
	30: {"MS", dhcpFlags}, 31: {"Router-Discovery", dhcpFlags}, 32: {"RSA", dhcpAddresses}, 33: {"Static-Route", dhcpPairs},
	34: {"UT", dhcpFlags}, 35: {"AT", dhcpSeconds}, 36: {"IE", dhcpFlags}, 37: {"TT", dhcpBytes}, 38: {"KI", dhcpSeconds},
	39: {"KG", dhcpFlags}, 40: {"YD", dhcpText}, 41: {"YS", dhcpAddresses}, 42: {"NTP", dhcpAddresses}, 43: {name: "Vendor-Option"},
	44: {"Netbios-Name-Server", dhcpAddresses}, 45: {"WDD", dhcpAddresses}, 46: {name: "Netbios-Node"}, 47: {"Netbios-Scope", dhcpText},
	48: {"XFS", dhcpAddresses}, 49: {"XDM", dhcpAddresses}, 50: {"Requested-IP", dhcpAddresses}, 51: {"Lease-Time", dhcpSeconds},
	52: {name: "OO"}, 53: {name: "DHCP-Message"}, 54: {"Server-ID", dhcpAddresses}, 55: {name: "Parameter-Request"},
	56: {"MSG", dhcpText}, 57: {"MSZ", dhcpShorts}, 58: {"RN", dhcpSeconds}, 59: {"RB", dhcpSeconds}, 60: {"Vendor-Class", dhcpText},
	61: {name: "Client-ID"}, 64: {"N+D", dhcpShorts}, 65: {"N+S", dhcpAddresses}, 66: {"TFTP", dhcpText}, 67: {"BF", dhcpText},
	68: {"MH", dhcpAddresses}, 69: {"SMTP", dhcpAddresses}, 70: {"POP3", dhcpAddresses}, 71: {"NNTP", dhcpAddresses},
	72: {"WWW", dhcpAddresses}, 73: {"FG", dhcpAddresses}, 74: {"IRC", dhcpAddresses}, 75: {"STS", dhcpAddresses},
	76: {"STDA", dhcpAddresses}, 77: {name: "User-Class"}, 78: {name: "SLP-DA"}, 79: {name: "SLP-SCOPE"}, 80: {"SLP-NA", dhcpText},
	81: {name: "FQDN"}, 82: {name: "Agent-Information"}, 83: {name: "ARMT"}, 88: {"TZSTR", dhcpText}, 89: {name: "FQDNS"},
	90: {name: "AUTH"}, 91: {"Last-Transaction-Time", dhcpSeconds}, 92: {"Associated-IP", dhcpAddresses}, 93: {"ARCH", dhcpShorts},
	94: {name: "NDI"}, 95: {"LDAP", dhcpText}, 97: {name: "GUID"}, 98: {"UAP", dhcpText}, 100: {"POSIX-TZ", dhcpText},
	101: {"TZ-Name", dhcpText}, 112: {"NI", dhcpAddresses}, 113: {"NITAG", dhcpText}, 114: {"URL", dhcpText},
	116: {"NOAUTO", dhcpFlags}, 117: {"NSSEARCH", dhcpShorts}, 118: {"SUBNET", dhcpAddresses}, 121: {name: "Classless-Static-Route"},
	150: {"TFTP-Server-Address", dhcpAddresses}, 161: {"MUD-URL", dhcpText}, 249: {name: "Classless-Static-Route-Microsoft"},
	255: {name: "END"},
}

// dhcpKindOf returns the kind of an option. The format of an option without a name depends on its
// size in bytes.
func dhcpKindOf(kind uint8, size int) dhcpKind {
	if known, ok := dhcpKinds[kind]; ok {
		return known
	}
	form := dhcpSeconds
	switch {
	case size&1 != 0:
		form = dhcpBytes
	case size&2 != 0:
		form = dhcpShorts
	}
	return dhcpKind{"Unknown", form}
}

var (
	dhcpMessages = map[uint8]string{1: "Discover", 2: "Offer", 3: "Request", 4: "Decline", 5: "ACK", 6: "NACK", 7: "Release",
		8: "Inform", 10: "LeaseQuery", 11: "LeaseUnassigned", 12: "LeaseUnknown", 13: "LeaseActive"}
	dhcpOverloads = map[uint8]string{1: "file", 2: "sname", 3: "file+sname"}
	dhcpNodes     = map[uint8]string{1: "b-node", 2: "p-node", 4: "m-node", 8: "h-node"}
	dhcpHardware  = map[uint8]string{1: "ether", 6: "ieee802", 7: "arcnet", 15: "frelay", 23: "strip", 24: "ieee1394"}
	dhcpAgents    = map[uint8]string{1: "Circuit-ID", 2: "Remote-ID", 6: "Subscriber-ID"}
	fqdnFlags     = []bit{{1, "S"}, {2, "O"}, {4, "E"}, {8, "N"}}

	// dhcpLeast are the shortest lengths in bytes of values.
	dhcpLeast = map[uint8]int{dhcpNetbiosNode: 1, dhcpOverload: 1, dhcpClientID: 1, dhcpUserClass: 2, dhcpFQDN: 3,
		dhcpRoutesOption: 5, dhcpMicrosoftRoutes: 5}
)

// dhcpOptions appends the options of length bytes, a line each.
func (d *Dissector) dhcpOptions(b []byte, length int) {
	isCut := len(b) < length
	showsAll := d.o.Verbose > 2 // also padding and the end
	for len(b) > 0 {
		kind := b[0]
		b = b[1:]
		if kind == dhcpPad || kind == dhcpEnd { // they have no length
			times := 1
			for kind == dhcpPad && len(b) > 0 && b[0] == dhcpPad {
				times++
				b = b[1:]
			}
			if kind == dhcpEnd && !showsAll {
				return
			}
			if showsAll {
				d.addf("\n\t    %s (%d), length 0", dhcpKinds[kind].name, kind)
			}
			if showsAll && times > 1 {
				d.addf(", occurs %d", times)
			}
			continue
		}
		size := int(d.u8(b, 0))
		b = b[1:]
		known := dhcpKindOf(kind, size)
		d.addf("\n\t    %s (%d), length %d", known.name, kind, size)
		if size > 0 {
			d.add(": ")
		}
		d.require(b, size)
		if left := size - d.dhcpOption(kind, known.form, b[:size]); left > 0 {
			d.addf("\n\t  trailing data length %d", left)
		}
		b = b[size:]
	}
	if isCut {
		d.truncated()
	}
}

// dhcpOption appends the value of an option, and returns the number of its bytes that it has shown.
func (d *Dissector) dhcpOption(kind uint8, form dhcpForm, b []byte) int {
	if least := dhcpLeast[kind]; len(b) < least {
		d.addf("[ERROR: length < %d bytes]", least)
		return len(b)
	}
	switch kind {
	case dhcpMessageType:
		if len(b) != 1 {
			return d.dhcpList(form, b)
		}
		d.add(lookUp(dhcpMessages, b[0], "Unknown (%d)"))
	case dhcpParameters:
		for i, wanted := range b {
			separator := ", "
			if i%4 == 0 {
				separator = "\n\t      "
			}
			d.addf("%s%s (%d)", separator, dhcpKindOf(wanted, 0).name, wanted)
		}
	case dhcpNetbiosNode:
		d.add(lookUp(dhcpNodes, b[0], "#%d"))
		return 1
	case dhcpOverload:
		d.add(lookUp(dhcpOverloads, b[0], "#%d"))
		return 1
	case dhcpClientID:
		d.dhcpClient(b[0], b[1:])
	case dhcpUserClass:
		d.dhcpClasses(b)
	case dhcpFQDN:
		d.dhcpName(b)
	case dhcpAgentInfo:
		return d.dhcpAgent(b)
	case dhcpRoutesOption, dhcpMicrosoftRoutes:
		d.dhcpRoutes(b)
	default:
		if form != dhcpText {
			return d.dhcpList(form, b)
		}
		d.inQuotes(b)
	}
	return len(b)
}

// dhcpList appends values of one form, and returns their size in bytes.
func (d *Dissector) dhcpList(form dhcpForm, b []byte) (used int) {
	size, separator := 1, ","
	switch form {
	case dhcpBytes:
		separator = "."
	case dhcpShorts:
		size = 2
	case dhcpAddresses, dhcpSeconds, dhcpSigned:
		size = 4
	case dhcpPairs:
		size = 8
	}
	for ; used+size <= len(b); used += size {
		if used > 0 {
			d.add(separator)
		}
		switch form {
		case dhcpAddresses:
			d.address("", d.ip4Addr(b, used))
		case dhcpPairs:
			d.addf("(%s:%s)", d.ip4Addr(b, used), d.ip4Addr(b, used+4))
		case dhcpSeconds:
			d.number("", uint64(d.u32(b, used)))
		case dhcpSigned:
			d.addf("%d", int32(d.u32(b, used)))
		case dhcpShorts:
			d.number("", uint64(d.u16(b, used)))
		case dhcpFlags:
			d.add(lookUp(map[uint8]string{0: "N", 1: "Y"}, b[used], "%d?"))
		default:
			d.number("", uint64(b[used]))
		}
	}
	return used
}

// dhcpClient appends a client's identifier: text if hardware is 0, or else an address of that kind
// of hardware.
func (d *Dissector) dhcpClient(hardware uint8, b []byte) {
	if hardware == 0 {
		d.inQuotes(b)
		return
	}
	d.addf("%s ", lookUp(dhcpHardware, hardware, "hardware-type %d,"))
	for i, c := range b {
		if i > 0 {
			d.add(":")
		}
		d.addf("%02x", c)
	}
}

// dhcpName appends a client's domain name: flags, two return codes and the name (RFC 4702).
func (d *Dissector) dhcpName(b []byte) {
	if b[0] != 0 {
		d.addf("[%s] ", bitNames(uint32(b[0]), fqdnFlags, "", ""))
	}
	if b[1] != 0 || b[2] != 0 {
		d.addf("%d/%d ", b[1], b[2])
	}
	d.inQuotes(b[3:])
}

// dhcpClasses appends the classes of a user (RFC 3004).
func (d *Dissector) dhcpClasses(b []byte) {
	for i := 1; len(b) > 0; i++ {
		size := int(b[0])
		b = b[1:]
		d.addf("\n\t      instance#%d: ", i)
		switch {
		case size == 0:
			d.add("[ERROR: suboption length must be non-zero]")
			return
		case size > len(b):
			d.add("[ERROR: invalid option]")
			return
		}
		d.inQuotes(b[:size])
		d.addf(", length %d", size)
		b = b[size:]
	}
}

// dhcpAgent appends the suboptions that a relay has added (RFC 3046), and returns the number of
// bytes shown.
func (d *Dissector) dhcpAgent(b []byte) int {
	at := 0
	for at+2 <= len(b) {
		kind, size := b[at], int(b[at+1])
		name, known := dhcpAgents[kind]
		if !known {
			name = "Unknown"
		}
		d.addf("\n\t      %s SubOption %d, length %d: ", name, kind, size)
		at += 2
		if at+size > len(b) {
			d.add("length goes past end of option")
			return len(b)
		}
		if value := b[at : at+size]; known {
			d.quoted(value)
		} else {
			d.hexData(value, "\n\t\t")
		}
		at += size
	}
	return at
}

// dhcpRoutes appends routes (RFC 3442): a prefix length, the bytes of the network that it covers,
// and the router.
func (d *Dissector) dhcpRoutes(b []byte) {
	for separator := ""; len(b) > 0; separator = "," {
		d.add(separator)
		prefix := int(b[0])
		b = b[1:]
		if prefix > 32 {
			d.addf("[ERROR: Mask width (%d) > 32]", prefix)
			return
		}
		size := (prefix + 7) / 8
		if len(b) < size+4 {
			d.addf("[ERROR: Remaining length (%d) < %d bytes]", len(b), size+4)
			return
		}
		var network [4]byte
		copy(network[:], b[:size])
		if prefix == 0 {
			d.addf("(default:%s)", d.ip4Addr(b, size))
		} else {
			d.addf("(%s/%d:%s)", addr(network[:]), prefix, d.ip4Addr(b, size))
		}
		b = b[size+4:]
	}
}
