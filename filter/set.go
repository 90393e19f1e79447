package filter

import "github.com/xdpcap/xdpcap/filter/internal/cbpf"

// SetKind is what the elements of a set are. It follows from the words before the set.
type SetKind = cbpf.SetKind

// Kinds of sets.
const (
	Addresses = cbpf.Addresses // host in @name
	Networks  = cbpf.Networks  // net in @name: an address is in the set if one of its networks has it
	Ports     = cbpf.Ports     // port in @name
)

// A Set is what "host in @name" looks an address up in, "net in @name" too, and "port in @name" a
// port. Package filter/set has sets that are read from files, and those in maps of the kernel.
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
