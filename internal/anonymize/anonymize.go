// Package anonymize makes copies of packets that can be published: with other addresses, and
// without payload. An [Input] wraps another input, so that outputs never receive an original
// packet.
//
// Headers that this package can parse are kept, with their addresses mapped by a [mapper] and their
// checksums as right or wrong as before: Ethernet, VLAN tags, MPLS, PPPoE, Linux's cooked headers,
// ARP, IPv4, IPv6 with its options and fragments, TCP, UDP, ICMP, ICMPv6 with neighbour discovery,
// IGMP, GRE, VXLAN, Geneve, IP in IP, and the packets that ICMP errors quote; of SCTP the common
// header, of ESP the first 8 bytes. Everything after the last of them is cut, and so is everything
// after the IP header of a fragment that is not the first. Options that may contain an address are
// overwritten with zeros. The length on the wire stays.
package anonymize

import (
	"fmt"
	"slices"
	"strings"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/headers"
)

// An Input is an input whose packets and descriptions have other addresses. It belongs to the
// goroutine of the input that it wraps.
type Input struct {
	capture.Input
	description capture.Description
	mapper      *mapper
	rewriter    *rewriter
	sources     *capture.SourceList
	packets     []packet // memory for the packets of one Read, reused by the next
}

// A packet is the memory of an anonymized packet.
type packet struct {
	facts  capture.Facts
	stored capture.Stored
	data   [maxHeaders]byte
}

// NewInput wraps an input. The key determines the mapping.
func NewInput(from capture.Input, key *Key) *Input {
	mapper := newMapper(key)
	in := &Input{Input: from, mapper: mapper, rewriter: newRewriter(mapper)}
	in.describe(key)
	return in
}

// Unwrap returns the wrapped input.
func (in *Input) Unwrap() capture.Input { return in.Input }

// Description returns the input's description with its addresses mapped. Texts that may contain an
// address are omitted.
func (in *Input) Description() capture.Description { return in.description }

// describe sets the description, and the sources of the packets.
func (in *Input) describe(key *Key) {
	d := in.Input.Description()
	d.Anonymized = fmt.Sprintf("addresses of IPv4 and IPv6 are mapped by Crypto-PAn (AES-128, the key's fingerprint is %s), and MAC addresses alike; "+
		"what follows the last header that is understood was cut; comments, filters and the command line are omitted", key.Fingerprint())
	d.Options.Filter, d.Options.FilterProgram, d.Options.Names = "", nil, nil
	if more := d.More; more != nil {
		d.More = func(come int) []capture.Source { return in.withoutAddresses(come, more(come)) }
	}
	d.Sources = in.withoutAddresses(0, d.Sources)
	in.sources = capture.NewSourceList(&d)
	if name := d.OutletName; name != nil {
		d.OutletName = func(o capture.Outlet) string { return withoutAddress(name(o), "interface") }
	}
	if name := d.ReasonName; name != nil {
		d.ReasonName = func(source uint16, f *capture.Facts) string { return withoutAddress(name(source, f), "reason") }
	}
	if name := d.LocationName; name != nil {
		d.LocationName = func(l capture.Location) string { return withoutAddress(name(l), "function") }
	}
	in.description = d
}

// withoutAddresses returns anonymized copies of the sources from index `come` on.
func (in *Input) withoutAddresses(come int, sources []capture.Source) []capture.Source {
	all := make([]capture.Source, len(sources))
	for i, s := range sources {
		s.Alias, s.Pod, s.Filter = "", capture.Pod{}, ""
		s.Name = withoutAddress(s.Name, fmt.Sprintf("interface%d", come+i))
		s.File = withoutAddress(s.File, fmt.Sprintf("file%d", come+i))
		if len(s.MAC) == 6 {
			s.MAC = slices.Clone(s.MAC)
			in.mapper.Address(s.MAC)
		} else {
			s.MAC = nil
		}
		all[i] = s
	}
	return all
}

// withoutAddress returns a name, or `instead` if the name contains an address, like that of a card
// (enx001122334455) or of a remote interface.
func withoutAddress(name, instead string) string {
	// Names with so many hexadecimal digits in a row, dots of numbers, or colons of them: as in
	// 001122334455, 192.0.2.1, and 2001:db8::1 or 00:11:22:33:44:55.
	const ofMAC, ofIPv4, ofIPv6 = 12, 3, 2
	digits, dots, separators := 0, 0, 0
	for i := range len(name) {
		switch c := name[i]; {
		case strings.IndexByte("0123456789abcdefABCDEF", c) >= 0:
			if digits++; digits == ofMAC {
				return instead
			}
			continue
		case c == '.':
			dots++
		case c == ':' || c == '-':
			separators++
		default:
			dots, separators = 0, 0
		}
		if digits = 0; dots == ofIPv4 || separators == ofIPv6 {
			return instead
		}
	}
	return name
}

// Read implements [capture.Input]. The packets are copies in the Input's own memory.
func (in *Input) Read(packets []capture.Packet, idle func()) (int, error) {
	n, err := in.Input.Read(packets, idle)
	in.sources.Update()
	for len(in.packets) < n {
		in.packets = append(in.packets, packet{})
	}
	for i := range packets[:n] {
		in.rewrite(&packets[i], &in.packets[i])
	}
	return n, err
}

// rewrite replaces p by the anonymized packet, whose memory is `to`.
func (in *Input) rewrite(p *capture.Packet, to *packet) {
	kept := in.rewriter.Rewrite(&to.data, headers.LinkOf(in.sources.Of(int(p.Source)).LinkType()), p.Data, int(p.WireLen))
	to.facts = *p.Facts
	to.facts.Hash, to.facts.HashKind = 0, capture.NoHash // the hash is computed from the addresses
	p.Facts, p.Data = &to.facts, to.data[:kept:kept]
	if p.Stored != nil {
		to.stored = *p.Stored
		to.stored.Block = nil // it contains the original packet
		p.Stored = &to.stored
	}
}
