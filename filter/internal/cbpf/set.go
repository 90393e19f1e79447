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

// A Set is what this stage asks a set: see filter.Set.
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
func ResolveSets[S Set](x syntax.Expr, sets map[string]S) []UsedSet {
	r := &setResolver[S]{sets: sets}
	r.resolve(x)
	return r.used
}

type setResolver[S Set] struct {
	sets map[string]S
	used []UsedSet
}

func (r *setResolver[S]) resolve(x syntax.Expr) {
	switch x := x.(type) {
	case *syntax.Logical:
		r.resolve(x.X)
		r.resolve(x.Y)
	case *syntax.Negation:
		r.resolve(x.X)
	case *syntax.Inner:
		r.resolve(x.X)
	case *syntax.Primitive:
		if x.At.Kind == syntax.KindSet {
			r.primitive(x)
		}
	}
}

func (r *setResolver[S]) primitive(p *syntax.Primitive) {
	name := p.At.SetName()
	set, ok := r.sets[name]
	if !ok {
		near := message.DidYouMean("", name, slices.Sorted(maps.Keys(r.sets)))
		p.At.FailAs(syntax.ErrNoSet, strings.TrimPrefix(near, ": "), "unknown set")
	}
	kind := Addresses
	switch p.Qual.Type {
	case syntax.AddrPort:
		kind = Ports
	case syntax.AddrNet:
		kind = Networks
	}
	var err error
	if p.IPv4, p.IPv6, err = set.Use(kind); err != nil {
		p.At.Fail("", "%v", err)
	}
	if kind != Ports {
		checkFamily(p)
	}
	if p.Set = slices.Index(r.used, UsedSet{name, kind}); p.Set < 0 {
		if p.Set = len(r.used); p.Set == MaxSets {
			p.At.Fail("", "more than %d sets", MaxSets)
		}
		r.used = append(r.used, UsedSet{name, kind})
	}
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
