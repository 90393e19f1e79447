package dissect

import (
	"fmt"
	"time"
)

var (
	ntpModes = [8]string{"unspecified", "symmetric active", "symmetric passive", "Client", "Server", "Broadcast", "Control Message", "Reserved"}
	ntpLeaps = map[uint8]string{0: "", 0x40: "+1s", 0x80: "-1s", 0xc0: "clock unsynchronized"}
)

const (
	ntpLength        = 48 // bytes of a time message without authentication
	ntpControlLength = 12 // bytes of a control message without data
	ntpControl       = 6  // the mode of such a message
)

// ntp appends a message of the network time protocol (RFC 5905) of length bytes.
func (d *Dissector) ntp(b []byte, length int) {
	d.proto = "ntp"
	first := d.u8(b, 0)
	mode := first & 7
	d.addf("NTPv%d, %s, length %d", first>>3&7, ntpModes[mode], length)
	if d.o.Verbose == 0 {
		return
	}
	leap := first & 0xc0
	d.addf("\n\tLeap indicator: %s (%d)", ntpLeaps[leap], leap)
	switch {
	case mode > ntpControl:
		return
	case mode == ntpControl && length < ntpControlLength, mode < ntpControl && length < ntpLength:
		d.invalid()
		return
	case mode == ntpControl:
		d.ntpControl(b, length)
		return
	}
	stratum, poll := d.u8(b, 1), int8(d.u8(b, 2))
	d.addf(", Stratum %d (%s), poll %d", stratum, ntpStratum(stratum), poll)
	if poll >= 0 && poll < 32 {
		d.addf(" (%ds)", uint32(1)<<poll)
	} else if poll < 0 && poll > -32 {
		d.addf(" (1/%ds)", uint32(1)<<-poll)
	}
	d.addf(", precision %d", int8(d.u8(b, 3)))
	d.addf("\n\tRoot Delay: %s, Root dispersion: %s", d.ntpShort(b, 4), d.ntpShort(b, 8))
	switch id := d.bytes(b, 12, 4); {
	case stratum == 0:
		d.add(", Reference-ID: (unspec)")
	case stratum == 1:
		d.add(", Reference-ID: ")
		d.quoted(id)
	default:
		d.addf(", Reference-ID: 0x%08x", d.u32(b, 12))
	}
	for i, name := range []string{"Reference Timestamp:  ", "Originator Timestamp: ", "Receive Timestamp:    ", "Transmit Timestamp:   "} {
		d.ntpTime("\n\t  "+name, d.u64(b, 16+8*i))
	}
	origin := d.u64(b, 24)
	d.ntpDelta("\n\t    Originator - Receive Timestamp:  ", origin, d.u64(b, 32))
	d.ntpDelta("\n\t    Originator - Transmit Timestamp: ", origin, d.u64(b, 40))
	switch more := length - ntpLength; more {
	case 0:
	case 4:
		d.addf("\n\tKey id: %d", d.u32(b, ntpLength))
	case 20, 24: // with a digest by MD5 or SHA-1
		d.addf("\n\tKey id: %d", d.u32(b, ntpLength))
		d.addf("\n\tAuthentication: %x", d.bytes(b, ntpLength+4, more-4))
	default:
		d.addf("\n\t(%d more bytes after the header)", more)
	}
}

// ntpControl appends a control message, a query or a setting (RFC 9327).
func (d *Dissector) ntpControl(b []byte, length int) {
	first := d.u8(b, 1)
	either := func(bit uint8, set, clear string) string {
		if first&bit != 0 {
			return set
		}
		return clear
	}
	d.addf(", %s, %s, %s, OpCode=%d", either(0x80, "Response", "Request"), either(0x40, "Error", "OK"), either(0x20, "More", "Last"), first&0x1f)
	d.addf("\n\tSequence=%d", d.u16(b, 2))
	if status := d.u16(b, 4); status == 0 {
		d.add(", Status=0")
	} else {
		d.addf(", Status=%#x", status)
	}
	d.addf(", Assoc.=%d", d.u16(b, 6))
	d.addf(", Offset=%d", d.u16(b, 8))
	count := int(d.u16(b, 10))
	d.addf(", Count=%d", count)
	switch {
	case count > length-ntpControlLength:
		d.invalid()
	case count != 0:
		d.u8(b, ntpControlLength)
		d.add("\n\tTO-BE-DONE: data not interpreted")
	}
}

// ntpTime appends a time since 1900.
func (d *Dissector) ntpTime(name string, at uint64) {
	d.addf("%s%d.%09d", name, at>>32, ntpFraction(at))
	if at>>32 != 0 {
		const since1900 = 2208988800 // seconds until 1970
		d.add(time.Unix(int64(at>>32)-since1900, 0).UTC().Format(" (2006-01-02T15:04:05Z)"))
	}
}

func ntpStratum(n uint8) string {
	switch {
	case n == 0:
		return "unspecified"
	case n == 1:
		return "primary reference"
	case n < 16:
		return "secondary reference"
	}
	return "reserved"
}

// ntpFraction returns the fraction of a time in nanoseconds.
func ntpFraction(t uint64) uint32 { return uint32(float64(uint32(t)) / (1 << 32) * 1e9) }

// ntpShort formats a time of 32 bits.
func (d *Dissector) ntpShort(b []byte, at int) string {
	return fmt.Sprintf("%d.%06d", d.u16(b, at), int(float64(d.u16(b, at+2))/65536*1e6))
}

func (d *Dissector) ntpDelta(name string, from, to uint64) {
	sign, delta := "+", to-from
	switch {
	case from == 0: // then there is no difference
		d.ntpTime(name, to)
		return
	case to <= from:
		sign, delta = "-", from-to
	}
	d.addf("%s%s%d.%09d", name, sign, delta>>32, ntpFraction(delta))
}
