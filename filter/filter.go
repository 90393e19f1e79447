// Package filter compiles pcap-filter(7) expressions to classic BPF, without cgo. Package
// filter/ebpf translates the result, or any classic program, to eBPF.
//
//	prog, err := filter.Compile("tcp port 443 and not host 192.0.2.1", filter.Options{})
//
// Expressions have their meaning in pcap-filter(7), on an Ethernet interface or on packets of
// another link type (Options.LinkType). Tests run from left to right. A packet that ends before
// the bytes of a test does not match, not even under "not"; the optimiser keeps that.
//
// # Packets inside packets
//
// The word inner, which libpcap does not have, has the precedence of not: "inner x" holds for a
// packet if x holds for a packet inside it, at one of at most four levels. docs/choosing.md lists
// the tunnels. The search for them is a part of the classic program, about 2,000 instructions long,
// before the first inner; x is compiled once for each level. A packet with an incomplete header of
// a tunnel contains no inner packet, and is not rejected for that. A header that is missing only
// from the captured bytes rejects the packet, as in any test.
//
// # Differences from libpcap
//
//   - inner, as above.
//   - docs/choosing.md lists the expressions that libpcap compiles to a different program.
//   - On Ethernet, raw IP and loopback, inbound is true and outbound is false, or the reverse with
//     Options.Outbound: the direction of packets is known before the filter runs.
//   - Names of Ethernet addresses (/etc/ethers; gateway needs them) are refused, and ifindex except
//     for LINUX_SLL2. ParseRaw reads the program that "tcpdump -ddd" prints for such an expression.
//   - protochain skips eight headers at most. libpcap's has a loop, which the kernel refuses.
//   - As in libpcap 1.11, vxlan is supported, and lldp and slow after ether proto; numbers that are
//     too large for their field and invalid DECnet addresses are refused.
//   - "host in @name", "net in @name" and "port in @name" test for the elements of a set, which
//     libpcap does not have: see Options.Sets.
//   - ip broadcast without a netmask is an error, as it is in libpcap where the netmask is unknown.
//   - An expression of more than 16384 tests, or nested more than 2000 deep, is an error.
//   - A program of more than MaxInstructions is an error here; libpcap passes it to the kernel,
//     which refuses it.
//   - A VLAN tag is in the packet at XDP, and vlan tests for it there. tcpdump on a socket gets the
//     packet without its outer tag, so that "tcp port 443" matches it: see Options.VLANAware.
package filter

import (
	"errors"
	"fmt"
	"net"

	"golang.org/x/net/bpf"

	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
	"github.com/xdpcap/xdpcap/filter/internal/syntax"
	"github.com/xdpcap/xdpcap/internal/headers"
)

// DefaultSnapLen is the return value for a match if Options.SnapLen is 0: tcpdump's default.
const DefaultSnapLen = 262144

// Options are the inputs of Compile besides the expression. The zero value is ready to use.
type Options struct {
	SnapLen   int        // bytes a matching program returns; 0 = DefaultSnapLen
	Netmask   net.IPMask // IPv4 netmask of the interface, for "ip broadcast"; nil = unknown
	Resolver  Resolver   // looks names up; nil = SystemResolver()
	Outbound  bool       // compile for sent packets: outbound is true, inbound is false
	VLANAware bool       // match after one or two VLAN tags, too, unless the expression names vlan

	// Sets are the sets by their names: "host in @blocked" looks up in Sets["blocked"].
	Sets map[string]Set

	// Fragments makes tests for ports also match first fragments of IPv6. Without it they only
	// match ports right after IPv6's first header, as in libpcap.
	Fragments bool

	// VXLANPort is an additional UDP port of VXLAN for the words vxlan and inner; 0 = none. Port
	// 4789 is always one, and for inner 8472.
	VXLANPort uint16

	// Unoptimised skips the optimiser, as tcpdump -O does. The program is longer and matches the
	// same packets. An expression that matches no packet is then no error.
	Unoptimised bool

	// LinkType is the packets' link type, as the LINKTYPE_ number of capture files; 0 = 1,
	// Ethernet. For NULL, whose number is 0, give that of LOOP, 108: the address family is read in
	// either byte order. Compile refuses numbers unless KnowsLinkType returns true. VLANAware works
	// for Ethernet only.
	LinkType uint16
}

// KnowsLinkType reports whether expressions can be compiled for packets of a LINKTYPE_ number:
// Ethernet (1), LINUX_SLL (113), LINUX_SLL2 (276), IP without a header before it (101, 228, 229 and
// 12 and 14 of older files), and BSD's loopback (NULL, 0, and LOOP, 108).
func KnowsLinkType(number uint16) bool { return headers.LinkOf(number) != headers.UnknownLink }

// IsKeyword reports whether a word has a meaning at any position of an expression, such as tcp,
// host or not.
func IsKeyword(word string) bool { return syntax.IsKeyword(word) }

// Compile turns an expression into a classic program. The empty expression matches every packet.
// For a faulty expression it returns an *Error. Compile may be called concurrently if the Resolver
// may. It takes as long as the Resolver does, which looks names up in files and in the DNS.
func Compile(text string, o Options) (prog *Program, err error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	if f := syntax.Catch(func() { prog = compile(text, o) }); f != nil {
		return nil, newError(text, f)
	}
	return prog, nil
}

// CompileRaw is Compile for an expression without sets, which is classic BPF.
func CompileRaw(text string, o Options) ([]bpf.RawInstruction, error) {
	o.Sets = nil
	prog, err := Compile(text, o)
	if err != nil {
		return nil, err
	}
	return prog.Instructions, nil
}

// CompileBoth is Compile for received packets and for sent packets; it ignores Options.Outbound.
// If only one direction can match, because the expression contains inbound or outbound, the other
// program matches no packet. Both programs may run concurrently.
func CompileBoth(text string, o Options) (received, sent *Program, err error) {
	o.Outbound = false
	received, err = Compile(text, o)
	if err != nil && !errors.Is(err, ErrNothing) {
		return nil, nil, err
	}
	empty := err
	o.Outbound = true
	switch sent, err = Compile(text, o); {
	case err == nil && empty != nil:
		received = MatchesNone()
	case empty == nil && errors.Is(err, ErrNothing):
		return received, MatchesNone(), nil
	}
	return received, sent, err
}

// compile runs the stages. A stage raises a fault if the expression cannot be compiled.
func compile(text string, o Options) *Program {
	tree := syntax.Parse(text)
	cbpf.Resolve(tree, o.Resolver)
	var sets []NamedSet
	for _, used := range cbpf.ResolveSets(tree, o.Sets) {
		sets = append(sets, NamedSet{used.Name, used.Kind, o.Sets[used.Name]})
	}
	prog := cbpf.Compile(tree, cbpf.Options{
		SnapLen:     uint32(o.SnapLen),
		Netmask:     o.Netmask,
		Outbound:    o.Outbound,
		VLANAware:   o.VLANAware,
		Fragments:   o.Fragments,
		VXLANPort:   uint32(o.VXLANPort),
		Link:        headers.LinkOf(o.LinkType),
		Unoptimised: o.Unoptimised,
	})
	return &Program{Instructions: prog, Sets: sets}
}

// setDefaults checks the options and sets the defaults of the others.
func (o *Options) setDefaults() error {
	if o.SnapLen < 0 || int64(o.SnapLen) > 0x7fffffff {
		return fmt.Errorf("snapshot length %d is not between 0 and %d", o.SnapLen, 0x7fffffff)
	}
	if o.SnapLen == 0 {
		o.SnapLen = DefaultSnapLen
	}
	if o.LinkType == 0 {
		o.LinkType = headers.LinkNumbers[headers.Ethernet]
	}
	if !KnowsLinkType(o.LinkType) {
		return fmt.Errorf("cannot compile filters for packets of link type %d", o.LinkType)
	}
	if n := len(o.Netmask); n != 0 && n != net.IPv4len {
		return fmt.Errorf("netmask has %d bytes instead of %d", n, net.IPv4len)
	}
	if o.Resolver == nil {
		o.Resolver = SystemResolver()
	}
	return nil
}
