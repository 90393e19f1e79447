package dissect

import "fmt"

var (
	stpVersions = map[uint8]string{0: "802.1d", 2: "802.1w", 3: "802.1s", 4: "802.1aq"}
	stpTypes    = map[uint8]string{0: "Config", 2: "Rapid STP", 0x80: "Topology Change"}
	stpFlags    = []bit{{1, "Topology change"}, {2, "Proposal"}, {0x10, "Learn"}, {0x20, "Forward"}, {0x40, "Agreement"},
		{0x80, "Topology change ACK"}}
	stpRoles = [4]string{"Unknown", "Alternate", "Root", "Designated"}
)

func (d *Dissector) stp(b []byte, length int) {
	d.proto = "stp"
	if length < 4 {
		d.invalid()
		return
	}
	if d.u16(b, 0) != 0 {
		d.addf("unknown STP version, length %d", length)
		return
	}
	version := d.u8(b, 2)
	d.addf("STP %s", lookUp(stpVersions, version, "Unknown STP protocol (0x%02x)"))
	if _, known := stpVersions[version]; !known {
		return
	}
	kind := d.u8(b, 3)
	d.addf(", %s", lookUp(stpTypes, kind, "Unknown BPDU Type (0x%02x)"))
	switch {
	case kind == 0 && length < 35, kind == 2 && version == 2 && length < 36:
		d.invalid()
	case kind == 0, kind == 2 && version == 2:
		d.stpConfig(b, length)
	case kind == 2 && version >= 3:
		if length < 102 || d.u8(b, 35) != 0 {
			d.invalid()
			return
		}
		instances := int(d.u16(b, 36)) + 2
		if length < 36+instances {
			d.invalid()
			return
		}
		d.stpMultiple(b, length)
		if version == 4 {
			size := int(d.u16(b, 36+instances)) + 2
			if length < 36+instances+size || size < 87 {
				d.invalid()
			} else if d.o.Verbose > 0 {
				d.stpShortest(skip(b, 36+instances))
			}
		}
	}
}

func (d *Dissector) bridge(b []byte, at int) string {
	id := d.bytes(b, at, 8)
	return fmt.Sprintf("%02x%02x.%02x:%02x:%02x:%02x:%02x:%02x", id[0], id[1], id[2], id[3], id[4], id[5], id[6], id[7])
}

func (d *Dissector) stpConfig(b []byte, length int) {
	flags := d.u8(b, 4)
	d.addf(", Flags [%s]", bitNames(uint32(flags), stpFlags, ", ", "none"))
	d.addf(", bridge-id %s.%04x, length %d", d.bridge(b, 17), d.u16(b, 25), length)
	if d.o.Verbose == 0 {
		return
	}
	d.stpTimes(b)
	d.addf("\n\troot-id %s, root-pathcost %d", d.bridge(b, 5), d.u32(b, 13))
	if d.u8(b, 2) == 2 {
		d.addf(", port-role %s", stpRoles[flags>>2&3])
	}
}

func (d *Dissector) stpTimes(b []byte) {
	seconds := func(at int) float64 { return float64(d.u16(b, at)) / 256 }
	d.addf("\n\tmessage-age %.2fs, max-age %.2fs, hello-time %.2fs, forwarding-delay %.2fs",
		seconds(27), seconds(29), seconds(31), seconds(33))
}

// stpMultiple appends a bridge's message about the common tree and its instances (MSTP).
func (d *Dissector) stpMultiple(b []byte, length int) {
	flags := d.u8(b, 4)
	d.addf(", CIST Flags [%s], length %d", bitNames(uint32(flags), stpFlags, ", ", "none"), length)
	if d.o.Verbose == 0 {
		return
	}
	d.addf("\n\tport-role %s, CIST root-id %s, CIST ext-pathcost %d", stpRoles[flags>>2&3], d.bridge(b, 5), d.u32(b, 13))
	d.addf("\n\tCIST regional-root-id %s, CIST port-id %04x,", d.bridge(b, 17), d.u16(b, 25))
	d.stpTimes(b)
	size := int(d.u16(b, 36))
	d.addf("\n\tv3len %d, MCID Name ", size)
	d.text(d.bytes(b, 39, 32))
	d.addf(", rev %d,\n\t\tdigest %x, CIST int-root-pathcost %d,", d.u16(b, 71), d.bytes(b, 73, 16), d.u32(b, 89))
	d.addf("\n\tCIST bridge-id %s, CIST remaining-hops %d", d.bridge(b, 93), d.u8(b, 101))
	for at := 102; size-64 >= 16; at, size = at+16, size-16 {
		instance := d.u8(b, at)
		d.addf("\n\tMSTI %d, Flags [%s], port-role %s", d.u16(b, at+1)&0xfff, bitNames(uint32(instance), stpFlags, ", ", "none"),
			stpRoles[instance>>2&3])
		d.addf("\n\t\tMSTI regional-root-id %s, pathcost %d", d.bridge(b, at+1), d.u32(b, at+9))
		d.addf("\n\t\tMSTI bridge-prio %d, port-prio %d, hops %d", d.u8(b, at+13)>>4, d.u8(b, at+14)>>4, d.u8(b, at+15))
	}
}

// stpShortest appends a bridge's message about shortest paths (802.1aq).
func (d *Dissector) stpShortest(b []byte) {
	d.addf("\n\tv4len %d, AUXMCID Name ", d.u16(b, 0))
	d.text(d.bytes(b, 3, 32))
	d.addf(", Rev %d,\n\t\tdigest %x", d.u16(b, 35), d.bytes(b, 37, 16))
	agreement, format, convention := d.u8(b, 53), d.u8(b, 55), d.u8(b, 56)
	d.addf("\n\tAgreement num %d, Discarded Agreement num %d, Agreement valid-flag %d,", agreement>>6, agreement>>4&3, agreement>>3&1)
	d.addf("\n\tRestricted role-flag: %d, Format id %d cap %d, Convention id %d cap %d,", agreement>>3&1, format>>4, format,
		convention>>4, convention)
	d.addf("\n\tEdge count %d, Agreement digest %x", d.u16(b, 57), d.bytes(b, 67, 20))
}
