package set

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"

	"github.com/xdpcap/xdpcap/filter"
)

// An Element is an address, a network or a port.
type Element struct {
	kind   filter.SetKind
	prefix netip.Prefix // of an address, with all bits, or of a network
	port   uint16
}

// ParseElement reads an address, a network with the length of its prefix, or a port.
func ParseElement(text string) (Element, error) {
	if strings.Contains(text, "/") {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return Element{}, fmt.Errorf("%q is no network: must be an address and the length of its prefix, such as 192.0.2.0/24", text)
		}
		if p != p.Masked() {
			return Element{}, fmt.Errorf("%s has host bits set: did you mean %v?", text, p.Masked())
		}
		return Element{prefix: p, kind: filter.Networks}, nil
	}
	if port, err := strconv.ParseUint(text, 10, 16); err == nil {
		return Element{port: uint16(port), kind: filter.Ports}, nil
	}
	a, err := netip.ParseAddr(text)
	if err != nil || a.Zone() != "" {
		return Element{}, fmt.Errorf("%q: must be an IP address, a network such as 192.0.2.0/24, or a port", text)
	}
	return Element{prefix: netip.PrefixFrom(a, a.BitLen()), kind: filter.Addresses}, nil
}

// String returns the element as a line of a file.
func (e Element) String() string {
	switch e.kind {
	case filter.Ports:
		return strconv.Itoa(int(e.port))
	case filter.Addresses:
		return e.prefix.Addr().String()
	}
	return e.prefix.String()
}

// compare orders ports before IPv4 before IPv6.
func (e Element) compare(other Element) int {
	if e.kind == filter.Ports || other.kind == filter.Ports {
		return int(e.port) - int(other.port)
	}
	if c := e.prefix.Addr().Compare(other.prefix.Addr()); c != 0 {
		return c
	}
	return e.prefix.Bits() - other.prefix.Bits()
}

// keyBytes is the number of bytes of the port or address.
func (e Element) keyBytes() int {
	if e.kind == filter.Ports {
		return 2
	}
	return e.prefix.Addr().BitLen() / 8
}

// appendKey appends the element's key in a map of a kind.
func (e Element) appendKey(b []byte, kind filter.SetKind) []byte {
	switch kind {
	case filter.Ports:
		return binary.BigEndian.AppendUint16(b, e.port)
	case filter.Networks:
		b = binary.NativeEndian.AppendUint32(b, uint32(e.prefix.Bits()))
	}
	return append(b, e.prefix.Addr().AsSlice()...)
}

// elementOf returns the element of a key in a map of a kind.
func elementOf(key []byte, kind filter.SetKind) Element {
	switch kind {
	case filter.Ports:
		return Element{port: binary.BigEndian.Uint16(key), kind: filter.Ports}
	case filter.Networks:
		a, _ := netip.AddrFromSlice(key[4:])
		e := Element{prefix: netip.PrefixFrom(a, int(binary.NativeEndian.Uint32(key))), kind: filter.Networks}
		if e.prefix.IsSingleIP() {
			e.kind = filter.Addresses
		}
		return e
	}
	a, _ := netip.AddrFromSlice(key)
	return Element{prefix: netip.PrefixFrom(a, a.BitLen()), kind: filter.Addresses}
}

// contents is the content of a file.
type contents struct {
	elements []Element
	lines    [filter.Ports + 1]int // the first line with an element of each kind; 0 = none
}

// parse reads a file with one element in each line. A # begins a comment.
func parse(r io.Reader, name string) (*contents, error) {
	c := new(contents)
	lines := bufio.NewScanner(r)
	number := 0
	for lines.Scan() {
		number++
		text, _, _ := strings.Cut(lines.Text(), "#")
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		e, err := ParseElement(text)
		if err != nil {
			return nil, fmt.Errorf("line %d of %s: %w", number, name, err)
		}
		if c.elements = append(c.elements, e); c.lines[e.kind] == 0 {
			c.lines[e.kind] = number
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read line %d of %s: %w", number+1, name, err)
	}
	return c, nil
}

// check returns an error for the first line whose kind of element is not that of the filter.
func (c *contents) check(kind filter.SetKind, name string) error {
	var misfit filter.SetKind
	for i, line := range c.lines {
		other := filter.SetKind(i)
		if line > 0 && !fits(other, kind) && (misfit == 0 || line < c.lines[misfit]) {
			misfit = other
		}
	}
	if misfit == 0 {
		return nil
	}
	texts := map[filter.SetKind]string{
		filter.Addresses: "is an address: write host in or net in",
		filter.Networks:  "is a network: write net in",
		filter.Ports:     "is a port: write port in",
	}
	return fmt.Errorf("line %d of %s %s", c.lines[misfit], name, texts[misfit])
}

// fits reports whether elements of a kind belong into a map of a kind. An address belongs into maps
// of networks, too.
func fits(element, into filter.SetKind) bool {
	return element == into || element == filter.Addresses && into == filter.Networks
}
