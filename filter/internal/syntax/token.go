// Package syntax is the first stage: it turns the text of an expression into a tree.
//
// scan cuts the text into tokens, and Parse builds the tree by recursive descent. Names, addresses
// and qualifiers stay as written; package cbpf gives them their meaning.
package syntax

import (
	"fmt"
)

// Kind is the class of a token.
type Kind uint8

// Kinds of tokens.
const (
	KindEnd       Kind = iota // end of the expression
	KindName                  // a name, or a backslash and any word
	KindNumber                // a 32-bit number; also icmptype, tcp-syn and the like
	KindIPv4                  // two to four numbers with dots
	KindIPv6                  // an IPv6 address
	KindEther                 // a MAC address
	KindArcnet                // $xx
	KindSymbol                // an operator; Num is its character or one of Sym*
	KindProtocol              // a protocol's name; Num is a Proto
	KindDir                   // src, dst; Num is a Direction
	KindAddrType              // host, net, port, portrange, gateway, proto, protochain; Num is an AddrType
	KindMask                  // mask
	KindAnd                   // and, &&
	KindOr                    // or, ||
	KindLen                   // len, length
	KindLess                  // less
	KindGreater               // greater
	KindByte                  // byte
	KindBroadcast             // broadcast
	KindMulticast             // multicast
	KindDirection             // inbound (Num is 0), outbound (1)
	KindEncap                 // vlan, mpls, pppoed, pppoes, geneve, vxlan; Num is an Encap
	KindLLC                   // llc
	KindIfindex               // ifindex
	KindInner                 // inner
	KindRefused               // a word of libpcap that this compiler refuses; see refusals
	KindSet                   // @ and the name of a set
)

// Operators of two characters; the others are their own character.
const (
	SymGE = 0x100 + iota
	SymLE
	SymNE
	SymLSH
	SymRSH
)

// Token is a word of the expression and its position.
type Token struct {
	Kind Kind
	Pos  int // byte offset in the expression
	Text string
	Num  uint32 // its meaning depends on Kind
}

// Is reports whether t is the operator c.
func (t Token) Is(c uint32) bool { return t.Kind == KindSymbol && t.Num == c }

// Fail ends the current stage because of the word t: see Fault.
func (t Token) Fail(hint, format string, args ...any) { t.FailAs(nil, hint, format, args...) }

// FailAs is Fail for a fault of the given kind.
func (t Token) FailAs(kind error, hint, format string, args ...any) {
	Fault{Pos: t.Pos, Word: t.Text, Message: fmt.Sprintf(format, args...), Hint: hint, Kind: kind}.Throw()
}

// Proto is a protocol qualifier. The zero value means that the identifier has no such qualifier.
type Proto uint32

// Protocols.
const (
	ProtoNone Proto = iota
	ProtoLink
	ProtoIP
	ProtoARP
	ProtoRARP
	ProtoSCTP
	ProtoTCP
	ProtoUDP
	ProtoICMP
	ProtoIGMP
	ProtoIGRP
	ProtoPIM
	ProtoVRRP
	ProtoCARP
	ProtoATALK
	ProtoAARP
	ProtoDECNET
	ProtoLAT
	ProtoSCA
	ProtoMOPRC
	ProtoMOPDL
	ProtoIP6
	ProtoICMP6
	ProtoAH
	ProtoESP
	ProtoISO
	ProtoESIS
	ProtoISIS
	ProtoCLNP
	ProtoSTP
	ProtoIPX
	ProtoNETBEUI
	ProtoL1
	ProtoL2
	ProtoIIH
	ProtoLSP
	ProtoSNP
	ProtoCSNP
	ProtoPSNP
)

// Direction is a src/dst qualifier.
type Direction uint32

// Directions.
const (
	DirNone Direction = iota
	DirSrc
	DirDst
	DirOr  // src or dst
	DirAnd // src and dst
)

// AddrType is the kind of an identifier.
type AddrType uint32

// Types of addresses.
const (
	AddrNone AddrType = iota
	AddrHost
	AddrNet
	AddrPort
	AddrPortrange
	AddrGateway
	AddrProto
	AddrProtochain
	AddrUndefined // there is no type to inherit
)

// Encap is a header that moves the tests after it.
type Encap uint32

// Encapsulations.
const (
	EncapVLAN Encap = iota
	EncapMPLS
	EncapPPPoED
	EncapPPPoES
	EncapGeneve
	EncapVXLAN
)
