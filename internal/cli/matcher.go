package cli

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

func newMatcher(text string, o filter.Options) (m *matcher, err error) {
	m = new(matcher)
	m.received, m.sent, err = filter.CompileBoth(text, o)
	return m, err
}

// takes tells whether the filter matches a packet that had wireLen bytes.
func (m *matcher) takes(data []byte, wireLen uint32, outbound bool) bool {
	program := m.received
	if outbound {
		program = m.sent
	}
	return filter.Run(program, data, wireLen) != 0
}

// matchers are the matchers for packets of each link type; nil where there is no filter.
type matchers [len(link.Numbers)]struct {
	*matcher
	err error // why the expression cannot be compiled for such packets
}

// matchers are those of the flags. A packet of which no direction is known counts as received.
// They are all made at once, because names are looked up while that is allowed.
func (o *filterOptions) matchers() (*matchers, error) {
	var all matchers
	if o.program != nil {
		for typ := range all {
			all[typ].err = errors.New("the program of --filter-file is for Ethernet")
		}
		all[link.Ethernet].matcher = &matcher{o.program, o.program}
		return &all, nil
	}
	if o.text == "" {
		return nil, nil
	}
	names := &knownNames{Resolver: filter.SystemResolver(), hosts: make(map[string][]netip.Addr)}
	for typ, number := range link.Numbers {
		of := &all[typ]
		of.matcher, of.err = newMatcher(o.text, filter.Options{VLANAware: o.vlanAware, LinkType: number, Resolver: names})
		if link.Type(typ) == link.Ethernet && of.err != nil {
			return nil, of.err
		}
		if errors.Is(of.err, filter.ErrNothing) {
			of.matcher, of.err = &matcher{nothing, nothing}, nil
		}
	}
	return &all, nil
}

// nothing is a program that matches no packet.
var nothing = []bpf.RawInstruction{{Op: 0x6}}

// of is the matcher for packets of a link type, or why there is none.
func (m *matchers) of(number uint16) (*matcher, error) {
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
