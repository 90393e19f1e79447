package dissect

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strconv"
)

// maxText is the maximum size in bytes of a packet's headers as text; with -v it is twice that. A
// packet can be crafted in which every byte is a header; its line would cost as much time as
// hundreds of others, and be too long to be useful.
const maxText = 2 << 10

// add appends text, unless the line has ended.
func (d *Dissector) add(s string) {
	if d.ended {
		return
	}
	d.line = append(d.line, s...)
	d.checkSize()
}

func (d *Dissector) addf(format string, a ...any) {
	if d.ended {
		return
	}
	d.line = fmt.Appendf(d.line, format, a...)
	d.checkSize()
}

// number appends text and a number.
func (d *Dissector) number(s string, n uint64) {
	if d.ended {
		return
	}
	d.line = strconv.AppendUint(append(d.line, s...), n, 10)
}

// address appends text and an address.
func (d *Dissector) address(s string, a netip.Addr) {
	if d.ended {
		return
	}
	d.line = a.AppendTo(append(d.line, s...))
	d.checkSize()
}

// spend counts work that prints no text as if it had printed n bytes.
func (d *Dissector) spend(n int) {
	if !d.ended {
		d.start -= n
		d.checkSize()
	}
}

func (d *Dissector) checkSize() {
	most := maxText
	if d.o.Verbose > 0 {
		most = 2 * maxText
	}
	if len(d.line)-d.start > most {
		d.line, d.ended = append(d.line, "..."...), true
	}
}

// name appends the name of a protocol, which -e has already shown as the EtherType.
func (d *Dissector) name(s string) {
	if !d.o.LinkLevel {
		d.add(s)
	}
}

// truncated ends the line with the mark of the protocol whose bytes are missing, such as [|tcp].
func (d *Dissector) truncated() {
	d.addf(" [|%s]", d.proto)
	d.ended = true
}

// invalid appends that the protocol does not allow the header before.
func (d *Dissector) invalid() { d.add(" (invalid)") }

// has reports whether the first n bytes of b were captured. If not, it ends the line.
func (d *Dissector) has(b []byte, n int) bool {
	if n > len(b) || n < 0 {
		d.truncated()
		return false
	}
	return true
}

// u8, u16, u24, u32 and u64 read a number. If it was not captured they return 0 and end the line,
// so that later text of the caller is not shown.
func (d *Dissector) u8(b []byte, at int) uint8 {
	if at >= len(b) {
		d.truncated()
		return 0
	}
	return b[at]
}

func (d *Dissector) u16(b []byte, at int) uint16 { return binary.BigEndian.Uint16(d.bytes(b, at, 2)) }

func (d *Dissector) u24(b []byte, at int) uint32 {
	three := d.bytes(b, at, 3)
	return uint32(three[0])<<16 | uint32(three[1])<<8 | uint32(three[2])
}

func (d *Dissector) u32(b []byte, at int) uint32 { return binary.BigEndian.Uint32(d.bytes(b, at, 4)) }

func (d *Dissector) u64(b []byte, at int) uint64 { return binary.BigEndian.Uint64(d.bytes(b, at, 8)) }

var zeros [255]byte

// bytes returns n bytes, at most 255. If they were not captured it ends the line and returns zeros.
func (d *Dissector) bytes(b []byte, at, n int) []byte {
	if at+n > len(b) {
		d.truncated()
		return zeros[:n]
	}
	return b[at : at+n]
}

func (d *Dissector) ip4Addr(b []byte, at int) netip.Addr {
	return netip.AddrFrom4([4]byte(d.bytes(b, at, 4)))
}

func (d *Dissector) ip6Addr(b []byte, at int) netip.Addr {
	return netip.AddrFrom16([16]byte(d.bytes(b, at, 16)))
}

func (d *Dissector) mac(b []byte, at int) net.HardwareAddr { return d.bytes(b, at, 6) }

// skip returns b without its first n bytes.
func skip(b []byte, n int) []byte { return b[min(n, len(b)):] }

// limit returns the first n bytes of b.
func limit(b []byte, n int) []byte { return b[:min(max(n, 0), len(b))] }

// lookUp returns the name of a value, or formats a value without a name with the format unknown.
func lookUp[K comparable](names map[K]string, value K, unknown string) string {
	if name, ok := names[value]; ok {
		return name
	}
	for i := range unknown {
		if unknown[i] == '%' {
			return fmt.Sprintf(unknown, value)
		}
	}
	return unknown
}

// A bit is the name of one or more bits of a number.
type bit struct {
	mask uint32
	name string
}

// bitNames returns the names of the bits of a number, or `none` if no bit is set.
func bitNames(value uint32, names []bit, separator, none string) string {
	var s string
	for _, b := range names {
		if value&b.mask == b.mask {
			if s != "" {
				s += separator
			}
			s += b.name
		}
	}
	if s == "" {
		return none
	}
	return s
}

// quoted appends bytes of a packet as characters in a form without control characters: ^A for the
// byte 1, M-a for bytes above 127.
func (d *Dissector) quoted(b []byte) {
	if d.ended {
		return
	}
	for _, c := range limit(b, maxText) {
		if c > 0x7f {
			d.line = append(d.line, "M-"...)
			c &= 0x7f
		}
		if c < ' ' || c == 0x7f {
			d.line = append(d.line, '^')
			c ^= 0x40
		}
		d.line = append(d.line, c)
	}
	d.checkSize()
}

// text appends the bytes before the first zero.
func (d *Dissector) text(b []byte) {
	for i, c := range b {
		if c == 0 {
			b = b[:i]
			break
		}
	}
	d.quoted(b)
}

// maxUnknown is the maximum number of bytes of unknown formats in a line unless an option requests
// the bytes.
const maxUnknown = 2 << 10

// unknown appends bytes of an unknown format, as tcpdump does, unless -x or -X show them, or -q
// omits them.
func (d *Dissector) unknown(b []byte) {
	if d.showsUnknown() {
		d.hexLines(b)
	}
}

func (d *Dissector) showsUnknown() bool {
	return !d.o.Quiet && d.o.Dump != HexDump && d.o.Dump != HexASCIIDump
}

func (d *Dissector) hexLines(b []byte) { d.hexRows(b, true, "\n\t") }

// hexData appends bytes in hexadecimal on their own lines, each with an indentation.
func (d *Dissector) hexData(b []byte, length int, indent string) {
	d.hexRows(limit(b, length), false, indent)
}

// hexRows appends bytes until the line has maxUnknown of them. Dots replace the others.
func (d *Dissector) hexRows(b []byte, ascii bool, indent string) {
	if d.ended {
		return
	}
	before, shown := len(d.line), limit(b, maxUnknown-d.unknownShown)
	d.line = appendHexRows(d.line, shown, ascii, indent)
	d.unknownShown += len(shown)
	d.start += len(d.line) - before
	if len(shown) < len(b) {
		d.add(indent + "...")
	}
}
