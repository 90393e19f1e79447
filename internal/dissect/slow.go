package dissect

var (
	slowNames = map[uint8]string{1: "LACP", 2: "MARKER", 3: "OAM"}
	slowTLVs  = map[[2]uint8]string{{1, 0}: "Terminator", {1, 1}: "Actor Information", {1, 2}: "Partner Information",
		{1, 3}: "Collector Information", {2, 0}: "Terminator", {2, 1}: "Marker Information"}
	lacpStates = []bit{{1, "Activity"}, {2, "Timeout"}, {4, "Aggregation"}, {8, "Synchronization"}, {0x10, "Collecting"},
		{0x20, "Distributing"}, {0x40, "Default"}, {0x80, "Expired"}}
)

// slow appends a frame of the slow protocols: link aggregation, and Ethernet's own management.
func (d *Dissector) slow(b []byte, length int) {
	d.proto = "slow"
	tooShort := func() {
		if d.o.Verbose > 0 {
			d.add("\n\t\t packet is too short")
		} else {
			d.add(" (packet is too short)")
		}
	}
	if length < 1 {
		tooShort()
		return
	}
	kind := d.u8(b, 0)
	version := ""
	if kind == 1 || kind == 2 {
		if length < 2 {
			tooShort()
			return
		}
		if v := d.u8(b, 1); v != 1 {
			d.addf("%s version %d packet not supported", slowNames[kind], v)
			return
		}
		version = "v1"
	}
	d.addf("%s%s, length %d", lookUp(slowNames, kind, "unknown (%d)"), version, length)
	switch {
	case kind < 1 || kind > 3:
		d.hexData(b, length, "\n\t")
	case kind < 3 && d.o.Verbose > 0:
		d.aggregation(kind, skip(b, 2), length-2)
	}
}

// aggregation appends the types, lengths and values of LACP and of the marker protocol.
func (d *Dissector) aggregation(kind uint8, b []byte, length int) {
	for length > 0 && !d.ended {
		if length < 2 {
			d.add("\n\t\t packet is too short")
			return
		}
		typ, size := d.u8(b, 0), int(d.u8(b, 1))
		d.addf("\n\t%s TLV (0x%02x), length %d", lookUp(slowTLVs, [2]uint8{kind, typ}, "Unknown"), typ, size)
		switch {
		case typ == 0:
			return
		case size < 2:
			d.add("\n\t    ERROR: illegal length - should be >= 2")
			return
		case length < size:
			d.add("\n\t\t packet is too short")
			return
		case !d.has(b, size):
			return
		}
		d.aggregationValue(kind, typ, b[:size])
		if d.o.Verbose > 1 {
			d.hexData(b[2:size], size-2, "\n\t  ")
		}
		b, length = b[size:], length-size
	}
}

func (d *Dissector) aggregationValue(kind, typ uint8, b []byte) {
	want := map[[2]uint8]int{{1, 1}: 20, {1, 2}: 20, {1, 3}: 16, {2, 1}: 16}[[2]uint8{kind, typ}]
	switch {
	case want == 0:
		if d.o.Verbose == 1 {
			d.hexData(b[2:], len(b)-2, "\n\t  ")
		}
	case len(b) != want:
		d.addf("\n\t    ERROR: illegal length - should be %d", want)
	case kind == 2:
		d.addf("\n\t  Request System %s, Request Port %d, Request Transaction ID 0x%08x", d.mac(b, 4), d.u16(b, 2), d.u32(b, 10))
	case typ == 3:
		d.addf("\n\t  Max Delay %d", d.u16(b, 2))
	default:
		d.addf("\n\t  System %s, System Priority %d, Key %d, Port %d, Port Priority %d\n\t  State Flags [%s]", d.mac(b, 4),
			d.u16(b, 2), d.u16(b, 10), d.u16(b, 14), d.u16(b, 12), bitNames(uint32(d.u8(b, 16)), lacpStates, ", ", "none"))
	}
}
