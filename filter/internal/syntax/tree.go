package syntax

import (
	"iter"
	"net/netip"
)

// Expr is a boolean expression: *Logical, *Negation, *Inner, *Primitive, *Protocol, *Relation or
// *Special.
type Expr any

// Primitives returns the primitives of an expression, from left to right.
func Primitives(x Expr) iter.Seq[*Primitive] {
	return func(yield func(*Primitive) bool) { eachPrimitive(x, yield) }
}

// eachPrimitive returns false once yield did.
func eachPrimitive(x Expr, yield func(*Primitive) bool) bool {
	switch x := x.(type) {
	case *Logical:
		return eachPrimitive(x.X, yield) && eachPrimitive(x.Y, yield)
	case *Negation:
		return eachPrimitive(x.X, yield)
	case *Inner:
		return eachPrimitive(x.X, yield)
	case *Primitive:
		return yield(x)
	}
	return true
}

// Logical is "x and y" or "x or y".
type Logical struct {
	Or   bool
	X, Y Expr
}

// Negation is "not x".
type Negation struct{ X Expr }

// Inner is "inner x": x holds for a packet that the packet carries, at any depth.
type Inner struct {
	At Token
	X  Expr
}

// Qualifier is the context of an identifier: "tcp src port".
type Qualifier struct {
	Proto Proto
	Dir   Direction
	Type  AddrType
}

// undefined is inherited by an identifier after a term without qualifiers.
var undefined = Qualifier{Type: AddrUndefined}

// Primitive is a qualified identifier: "tcp src port 80". The parser fills in all but Meaning.
type Primitive struct {
	At    Token // the identifier
	Qual  Qualifier
	Slash bool   // "/" and Bits follow the identifier
	Bits  uint32 // prefix length
	Mask  Token  // the mask after the word mask; of KindEnd if there is no such word

	Meaning
}

// Meaning is the value of an identifier, in numbers. Package cbpf fills in the fields that the
// qualifiers need.
type Meaning struct {
	Hosts         []netip.Addr // addresses of a host name, or one IPv6 address
	Addr, Netmask uint32       // IPv4 address and mask, or DECnet address
	Prefix        int          // significant bits of the IPv6 addresses
	Ether         [6]byte
	Ports         [2]uint32 // first and last
	Transport     Proto     // of the ports; ProtoNone: TCP, UDP and SCTP
	Number        uint32    // of the protocol

	Set        int  // the number in the program of the set whose name is At
	IPv4, IPv6 bool // the families of the addresses that it can have
}

// SetName is the name of a set, without its @.
func (t Token) SetName() string { return t.Text[1:] }

// Protocol is a protocol's name alone: "tcp".
type Protocol struct {
	At    Token
	Proto Proto
}

// Relation is "x op y" over numbers. At is the operator: one of > < = SymGE SymLE SymNE.
type Relation struct {
	At   Token
	X, Y Arith
}

// Special is every other test: broadcast, less, vlan and so on. At is its keyword.
type Special struct {
	At    Token
	Proto Proto  // of broadcast and multicast
	Has   bool   // the expression has Arg
	Arg   uint32 // VLAN id, length, offset
	Op    uint32 // of byte
	Value uint32 // of byte
	Name  string // of llc
	ArgAt Token  // position of Arg or Name
}

// Arith is a number: *Constant, *Length, *Load, *Minus or *Operation.
type Arith any

// Constant is a number in the expression.
type Constant struct{ Value uint32 }

// Length is the length of the packet.
type Length struct{}

// Load is "proto[offset:size]".
type Load struct {
	At     Token
	Proto  Proto
	Offset Arith
	Size   Token
	Bytes  uint32 // the size; the default is 1
}

// Minus is "-x".
type Minus struct{ X Arith }

// Operation is "x op y". At is the operator: one of + - * / % & | ^ SymLSH SymRSH.
type Operation struct {
	At   Token
	X, Y Arith
}
