package filter

import "github.com/xdpcap/xdpcap/filter/internal/cbpf"

// SetKind is the kind of a set's elements. It follows from the words before the set.
type SetKind = cbpf.SetKind

// Kinds of sets.
const (
	Addresses = cbpf.Addresses // host in @name
	Networks  = cbpf.Networks  // net in @name: an address is in the set if one of its networks has it
	Ports     = cbpf.Ports     // port in @name
)

// A Set has addresses for "host in @name" and "net in @name", or ports for "port in @name". Package
// filter/set reads sets from files and pinned BPF maps.
type Set interface {
	// Use is called for each place of an expression that names the set. It returns the families of
	// the addresses that the set can have, or an error if its elements are not of this kind.
	Use(kind SetKind) (ipv4, ipv6 bool, err error)
	// Contains reports whether a key is in the set: two bytes of a port, four of an IPv4 address or
	// 16 of an IPv6 address, in network byte order. It may be called concurrently.
	Contains(key []byte) bool
}

// A NamedSet is a set that a program looks up in.
type NamedSet struct {
	Name string
	Kind SetKind
	Set
}
