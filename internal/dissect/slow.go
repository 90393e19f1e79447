package dissect

// The slow protocols of Ethernet (IEEE 802.3, annex 57A), by their subtype.
const (
	lacp   = 1
	marker = 2
	oam    = 3
)

// A slowTLV is a type of LACP or of the marker protocol.
type slowTLV struct{ protocol, typ uint8 }

var (
	slowNames = map[uint8]string{lacp: "LACP", marker: "MARKER", oam: "OAM"}
	slowTLVs  = map[slowTLV]string{{lacp, 0}: "Terminator", {lacp, 1}: "Actor Information", {lacp, 2}: "Partner Information",
		{lacp, 3}: "Collector Information", {marker, 0}: "Terminator", {marker, 1}: "Marker Information"}
	// slowSizes are the lengths that standards define, with type and length.
	slowSizes  = map[slowTLV]int{{lacp, 1}: 20, {lacp, 2}: 20, {lacp, 3}: 16, {marker, 1}: 16}
	lacpStates = []bit{{1, "Activity"}, {2, "Timeout"}, {4, "Aggregation"}, {8, "Synchronization"}, {0x10, "Collecting"},
		{0x20, "Distributing"}, {0x40, "Default"}, {0x80, "Expired"}}
)

// slow appends a frame of the slow protocols: LACP and its markers, for link aggregation, and OAM,
// the management of an Ethernet link.
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
	protocol := d.u8(b, 0)
	isAggregation := protocol == lacp || protocol == marker
	version := ""
	if isAggregation {
		if length < 2 {
			tooShort()
			return
		}
		if v := d.u8(b, 1); v != 1 {
			d.addf("%s version %d packet not supported", slowNames[protocol], v)
			return
		}
		version = "v1"
	}
	d.addf("%s%s, length %d", lookUp(slowNames, protocol, "unknown (%d)"), version, length)
	switch {
	case slowNames[protocol] == "":
		d.hexData(limit(b, length), "\n\t")
	case isAggregation && d.o.Verbose > 0:
		d.aggregation(protocol, skip(b, 2), length-2)
	}
}

// aggregation appends the types, lengths and values of LACP and of the marker protocol.
func (d *Dissector) aggregation(protocol uint8, b []byte, length int) {
	for length > 0 {
		if length < 2 {
			d.add("\n\t\t packet is too short")
			return
		}
		t, size := slowTLV{protocol, d.u8(b, 0)}, int(d.u8(b, 1))
		d.addf("\n\t%s TLV (0x%02x), length %d", lookUp(slowTLVs, t, "Unknown"), t.typ, size)
		switch {
		case t.typ == 0:
			return
		case size < 2:
			d.add("\n\t    ERROR: illegal length - should be >= 2")
			return
		case length < size:
			d.add("\n\t\t packet is too short")
			return
		}
		d.require(b, size)
		d.aggregationValue(t, b[:size])
		if d.o.Verbose > 1 {
			d.hexData(b[2:size], "\n\t  ")
		}
		b, length = b[size:], length-size
	}
}

// aggregationValue appends the value of a type. b begins with type and length.
func (d *Dissector) aggregationValue(t slowTLV, b []byte) {
	want := slowSizes[t]
	switch {
	case want == 0: // an unknown type
		if d.o.Verbose == 1 {
			d.hexData(b[2:], "\n\t  ")
		}
	case len(b) != want:
		d.addf("\n\t    ERROR: illegal length - should be %d", want)
	case t.protocol == marker:
		d.addf("\n\t  Request System %s, Request Port %d, Request Transaction ID 0x%08x", d.mac(b, 4), d.u16(b, 2), d.u32(b, 10))
	case t.typ == 3:
		d.addf("\n\t  Max Delay %d", d.u16(b, 2))
	default: // actor or partner
		d.addf("\n\t  System %s, System Priority %d, Key %d, Port %d, Port Priority %d\n\t  State Flags [%s]", d.mac(b, 4),
			d.u16(b, 2), d.u16(b, 10), d.u16(b, 14), d.u16(b, 12), bitNames(uint32(d.u8(b, 16)), lacpStates, ", ", "none"))
	}
}
