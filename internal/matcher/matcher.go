// Package matcher decides about packets outside of the kernel.
package matcher

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/net/bpf"

	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/internal/link"
	"github.com/xdpcap/xdpcap/internal/pcapng"
)

// A matcher decides about packets outside of the kernel, by one program for those that were
// received and another for those that were sent.
type matcher struct{ received, sent []bpf.RawInstruction }

// New compiles a filter twice: for packets that were received, and for those that were sent.
func New(text string, o filter.Options) (m *matcher, err error) {
	m = new(matcher)
	m.received, m.sent, err = filter.CompileBoth(text, o)
	return m, err
}

// Takes tells whether the filter matches a packet that had wireLen bytes.
func (m *matcher) Takes(data []byte, wireLen uint32, outbound bool) bool {
	program := m.received
	if outbound {
		program = m.sent
	}
	return filter.Run(program, data, wireLen) != 0
}

// All are the matchers for packets of each link type.
type All [len(link.Numbers)]one

type one struct {
	*matcher
	err error // why the expression cannot be compiled for such packets
}

// OfProgram is a program that is for Ethernet alone.
func OfProgram(program []bpf.RawInstruction) *All {
	all := new(All)
	for typ := range all {
		all[typ].err = errors.New("the program of --filter-file is for Ethernet")
	}
	all[link.Ethernet] = one{matcher: &matcher{program, program}}
	return all
}

// ForAll compiles a filter for each link type. They are all made at once, because names are
// looked up while that is allowed. The options' LinkType and Resolver are not used. It fails where
// the filter is none for any of them, with the reason for Ethernet.
func ForAll(text string, o filter.Options) (*All, error) {
	all := new(All)
	o.Resolver = &knownNames{Resolver: filter.SystemResolver(), hosts: make(map[string][]netip.Addr)}
	refused := 0
	for typ, number := range link.Numbers {
		of := &all[typ]
		o.LinkType = number
		switch of.matcher, of.err = New(text, o); {
		case errors.Is(of.err, filter.ErrNothing) && link.Type(typ) != link.Ethernet:
			of.matcher, of.err = &matcher{nothing, nothing}, nil
			refused++
		case of.err != nil:
			refused++
		}
	}
	if refused == len(all) {
		return nil, all[link.Ethernet].err
	}
	return all, nil
}

// nothing is a program that matches no packet.
var nothing = []bpf.RawInstruction{{Op: 0x6}}

// Of is the matcher for packets of a link type, or why there is none.
func (m *All) Of(number uint16) (*matcher, error) {
	typ := link.Of(number)
	switch {
	case typ == link.Unknown:
		return nil, fmt.Errorf("filters do not know %s", pcapng.LinkTypeName(number))
	case m[typ].err != nil:
		return nil, fmt.Errorf("the filter cannot be applied to %s: %v", pcapng.LinkTypeName(number), m[typ].err)
	}
	return m[typ].matcher, nil
}

// knownNames asks for the addresses of a host once.
type knownNames struct {
	filter.Resolver
	hosts map[string][]netip.Addr
}

func (n *knownNames) Host(name string) ([]netip.Addr, error) {
	if known, ok := n.hosts[name]; ok {
		return known, nil
	}
	found, err := n.Resolver.Host(name)
	if err == nil {
		n.hosts[name] = found
	}
	return found, err
}
