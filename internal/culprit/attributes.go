package culprit

import (
	"encoding/binary"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// An attribute is a part of a netlink message.
type attribute struct {
	kind  uint16 // its type in netlink, without flags
	value []byte
}

type attributes []attribute

// parseAttributes returns the attributes in a message; none if it is damaged.
func parseAttributes(b []byte) (all attributes) {
	const kindBits = 0x3fff // NLA_TYPE_MASK
	attrs, _ := nl.ParseRouteAttr(b)
	for _, a := range attrs {
		all = append(all, attribute{a.Attr.Type & kindBits, a.Value})
	}
	return all
}

// get returns an attribute's value; nil if it is missing.
func (all attributes) get(kind uint16) []byte {
	for _, a := range all {
		if a.kind == kind {
			return a.value
		}
	}
	return nil
}

// nested returns the attributes within an attribute.
func (all attributes) nested(kind uint16) attributes { return parseAttributes(all.get(kind)) }

// text returns a string that ends with a zero, or with the attribute.
func (all attributes) text(kind uint16) string { return unix.ByteSliceToString(all.get(kind)) }

// number returns a number in network byte order, which nf_tables uses for all its numbers; 0 if it
// is missing.
func (all attributes) number(kind uint16) (n uint64) {
	value := all.get(kind)
	if len(value) > 8 {
		return 0
	}
	for _, b := range value {
		n = n<<8 | uint64(b)
	}
	return n
}

// hostNumber returns a number of up to 8 bytes in the byte order of this machine, which is little
// endian.
func hostNumber(b []byte) uint64 {
	var padded [8]byte
	copy(padded[:], b)
	return binary.LittleEndian.Uint64(padded[:])
}
