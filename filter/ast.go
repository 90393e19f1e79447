package filter

import "net/netip"

// node is a boolean expression: *logical, *negation, *primitive, *protocol, *relation or *special.
type node any

// logical is "x and y" or "x or y".
type logical struct {
	or   bool
	x, y node
}

// negation is "not x".
type negation struct{ x node }

// qualifier says how to read an identifier: "tcp src port".
type qualifier struct {
	proto proto
	dir   direction
	typ   addrType
}

// undefined is what an identifier inherits from a term without qualifiers.
var undefined = qualifier{typ: addrUndefined}

// primitive is a qualified identifier. The parser fills the first part, resolve the second.
type primitive struct {
	at    token // the identifier
	qual  qualifier
	slash bool   // at "/" bits
	bits  uint32 // prefix length
	mask  token  // at "mask" mask; kEnd if there is none

	hosts      []netip.Addr // host names, IPv6 addresses
	addr, netm uint32       // IPv4 address and mask, or DECnet address
	prefix     int          // IPv6 prefix length
	ether      [6]byte
	ports      [2]uint32
	transport  proto  // protoNone: TCP, UDP and SCTP
	number     uint32 // of the protocol
}

// protocol is a protocol name alone: "tcp".
type protocol struct {
	at    token
	proto proto
}

// relation is "x op y" over numbers.
type relation struct {
	at   token // the operator
	op   uint16
	not  bool // the opposite of op
	x, y arith
}

// special is every other test: broadcast, less, vlan and so on.
type special struct {
	at        token
	proto     proto  // of broadcast and multicast
	has       bool   // arg is given
	arg       uint32 // vlan id, length, offset
	op        uint32 // of byte
	value     uint32 // of byte
	name      string // of llc
	nameToken token
}

// arith is a number: *constant, *length, *load, *unary or *operation.
type arith any

type constant struct{ value uint32 }

type length struct{}

// load is "proto[offset:size]".
type load struct {
	at     token
	proto  proto
	offset arith
	size   token
	bytes  uint32
}

type unary struct{ x arith }

type operation struct {
	at   token
	op   uint16
	x, y arith
}
