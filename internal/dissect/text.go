package dissect

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// maxText is the maximum size in bytes of a packet's headers as text; with -v it is twice that. A
// packet can be crafted in which every byte is a header; its line would cost as much time as
// hundreds of others, and be too long to be useful.
const maxText = 2 << 10

// lineEnd is the panic that ends a line, at the first missing byte or at maxText. decode recovers
// it, so the decoders, which call each other, need not return that the line has ended.
type lineEnd struct{}

// add appends text.
func (d *Dissector) add(s string) {
	d.line = append(d.line, s...)
	d.checkSize()
}

func (d *Dissector) addf(format string, a ...any) {
	d.line = fmt.Appendf(d.line, format, a...)
	d.checkSize()
}

// number appends text and a number.
func (d *Dissector) number(s string, n uint64) {
	d.line = strconv.AppendUint(append(d.line, s...), n, 10)
}

// address appends text and an address.
func (d *Dissector) address(s string, a netip.Addr) {
	d.line = a.AppendTo(append(d.line, s...))
	d.checkSize()
}

// spend counts work that prints no text as if it had printed n bytes.
func (d *Dissector) spend(n int) {
	d.start -= n
	d.checkSize()
}

// checkSize ends the line with dots if it is longer than maxText.
func (d *Dissector) checkSize() {
	longest := maxText
	if d.o.Verbose > 0 {
		longest = 2 * maxText
	}
	if len(d.line)-d.start > longest {
		d.line = append(d.line, "..."...)
		panic(lineEnd{})
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
	panic(lineEnd{})
}

// invalid appends that the protocol does not allow the header before.
func (d *Dissector) invalid() { d.add(" (invalid)") }

// require ends the line unless the first n bytes of b were captured.
func (d *Dissector) require(b []byte, n int) {
	if n > len(b) || n < 0 {
		d.truncated()
	}
}

// u8, u16, u24, u32 and u64 read a big-endian number. They end the line if it was not captured.
func (d *Dissector) u8(b []byte, at int) uint8 { return d.bytes(b, at, 1)[0] }

func (d *Dissector) u16(b []byte, at int) uint16 { return binary.BigEndian.Uint16(d.bytes(b, at, 2)) }

func (d *Dissector) u24(b []byte, at int) uint32 {
	three := d.bytes(b, at, 3)
	return uint32(three[0])<<16 | uint32(three[1])<<8 | uint32(three[2])
}

func (d *Dissector) u32(b []byte, at int) uint32 { return binary.BigEndian.Uint32(d.bytes(b, at, 4)) }

func (d *Dissector) u64(b []byte, at int) uint64 { return binary.BigEndian.Uint64(d.bytes(b, at, 8)) }

// bytes returns n bytes. It ends the line if they were not captured.
func (d *Dissector) bytes(b []byte, at, n int) []byte {
	if at+n > len(b) {
		d.truncated()
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
	if strings.Contains(unknown, "%") {
		return fmt.Sprintf(unknown, value)
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
	var set []string
	for _, b := range names {
		if value&b.mask == b.mask {
			set = append(set, b.name)
		}
	}
	if set == nil {
		return none
	}
	return strings.Join(set, separator)
}

// quoted appends bytes of a packet as characters in a form without control characters: ^A for the
// byte 1, M-a for bytes above 127.
func (d *Dissector) quoted(b []byte) {
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

// inQuotes appends text between quotation marks.
func (d *Dissector) inQuotes(b []byte) {
	d.add("\"")
	d.quoted(b)
	d.add("\"")
}

// text appends the bytes before the first zero.
func (d *Dissector) text(b []byte) {
	text, _, _ := bytes.Cut(b, []byte{0})
	d.quoted(text)
}

// maxUnknown is the maximum number of bytes of unknown formats in a line unless an option requests
// the bytes.
const maxUnknown = 2 << 10

// unknown appends bytes of an unknown format, as tcpdump does, unless -x or -X show them, or -q
// omits them.
func (d *Dissector) unknown(b []byte) {
	if d.showsUnknown() {
		d.hexRows(b, true, "\n\t")
	}
}

func (d *Dissector) showsUnknown() bool {
	return !d.o.Quiet && d.o.Dump != HexDump && d.o.Dump != HexASCIIDump
}

// hexData appends bytes in hexadecimal on their own lines, each with an indentation.
func (d *Dissector) hexData(b []byte, indent string) { d.hexRows(b, false, indent) }

// hexRows appends bytes until the line has maxUnknown of them. Dots replace the others.
func (d *Dissector) hexRows(b []byte, ascii bool, indent string) {
	before, shown := len(d.line), limit(b, maxUnknown-d.unknownShown)
	d.line = appendHex(d.line, shown, ascii, indent)
	d.unknownShown += len(shown)
	d.start += len(d.line) - before
	if len(shown) < len(b) {
		d.add(indent + "...")
	}
}
