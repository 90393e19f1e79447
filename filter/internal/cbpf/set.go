package cbpf

import (
	"maps"
	"slices"
	"strings"

	"github.com/xdpcap/xdpcap/filter/internal/syntax"
	"github.com/xdpcap/xdpcap/internal/message"
)

// SetKind is what the elements of a set are: see filter.SetKind.
type SetKind int

// Kinds of sets.
const (
	Addresses SetKind = iota + 1
	Networks
	Ports
)

// A Set is the part of filter.Set that ResolveSets calls.
type Set interface {
	Use(kind SetKind) (ipv4, ipv6 bool, err error)
}

// resolveSet checks that the qualifiers fit a set.
func (p identifier) resolveSet() {
	switch p.Qual.Type {
	case syntax.AddrPort:
		p.setPorts(0, 0, syntax.ProtoNone)
	case syntax.AddrNone, syntax.AddrHost, syntax.AddrNet:
		p.checkHostProto(isIPv4Proto(p.Qual.Proto) || p.Qual.Proto == syntax.ProtoIP6, "a set of addresses")
	default:
		p.At.Fail("write host in, net in or port in", "a set does not fit here")
	}
}

// A UsedSet is a set that an expression names.
type UsedSet struct {
	Name string
	Kind SetKind
}

// ResolveSets numbers the sets of a tree, and returns them by their numbers. It runs after Resolve.
func ResolveSets[S Set](x syntax.Expr, sets map[string]S) (used []UsedSet) {
	for p := range syntax.Primitives(x) {
		if p.At.Kind != syntax.KindSet {
			continue
		}
		name := p.At.SetName()
		set, ok := sets[name]
		if !ok {
			near := message.DidYouMean("", name, slices.Sorted(maps.Keys(sets)))
			p.At.FailAs(syntax.ErrNoSet, strings.TrimPrefix(near, ": "), "unknown set")
		}
		use := UsedSet{name, setKindOf(p.Qual.Type)}
		var err error
		if p.IPv4, p.IPv6, err = set.Use(use.Kind); err != nil {
			p.At.Fail("", "%v", err)
		}
		if use.Kind != Ports {
			checkFamily(p)
		}
		if p.Set = slices.Index(used, use); p.Set < 0 {
			if p.Set = len(used); p.Set == MaxSets {
				p.At.Fail("", "more than %d sets", MaxSets)
			}
			used = append(used, use)
		}
	}
	return used
}

func setKindOf(t syntax.AddrType) SetKind {
	switch t {
	case syntax.AddrPort:
		return Ports
	case syntax.AddrNet:
		return Networks
	}
	return Addresses
}

// checkFamily refuses a protocol whose addresses the set cannot have.
func checkFamily(p *syntax.Primitive) {
	switch q := p.Qual.Proto; {
	case isIPv4Proto(q) && !p.IPv4:
		p.At.Fail("", "the set has no IPv4 addresses")
	case q == syntax.ProtoIP6 && !p.IPv6:
		p.At.Fail("", "the set has no IPv6 addresses")
	}
}
