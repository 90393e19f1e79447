package filters

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/internal/headers"
	"github.com/xdpcap/xdpcap/internal/pcapng"
)

// A Matcher decides about packets outside of the kernel, by one program for those that were
// received and another for those that were sent.
type Matcher struct{ received, sent *filter.Program }

// NewMatcher compiles a filter twice: for packets that were received, and for those that were sent.
func NewMatcher(text string, o filter.Options) (m *Matcher, err error) {
	m = new(Matcher)
	m.received, m.sent, err = filter.CompileBoth(text, o)
	return m, err
}

// Takes reports whether the filter matches a packet that had wireLen bytes.
func (m *Matcher) Takes(data []byte, wireLen uint32, outbound bool) bool {
	program := m.received
	if outbound {
		program = m.sent
	}
	return program.Run(data, wireLen) != 0
}

// Matchers are those for packets of each link type.
type Matchers struct {
	matchers [len(headers.LinkNumbers)]one

	// Those for interfaces whose netmask the file says are compiled for the first packet.
	text    string
	options filter.Options
	own     map[network]one // nil = the netmask of options holds for all interfaces
}

type one struct {
	*Matcher
	err error // why the expression cannot be compiled for such packets
}

// A network is what a matcher for an interface of a file depends on.
type network struct {
	link    headers.Link
	netmask [net.IPv4len]byte
}

// programMatchers are those of a program, which is for Ethernet alone.
func programMatchers(program *filter.Program) *Matchers {
	all := new(Matchers)
	for typ := range all.matchers {
		all.matchers[typ].err = errors.New("the program of --filter-file is for Ethernet")
	}
	all.matchers[headers.Ethernet] = one{Matcher: &Matcher{program, program}}
	return all
}

// newMatchers compiles a filter for each link type. They are all made at once, because names are
// looked up while that is allowed. The options' LinkType and Resolver are not used, and Netmask is
// for interfaces whose netmask is not known or, if oneNetmask is true, for all. It fails where
// the filter is none for any of them, with the reason for Ethernet.
func newMatchers(text string, o filter.Options, oneNetmask bool) (*Matchers, error) {
	o.Resolver = &knownNames{Resolver: filter.SystemResolver(), known: make(map[name]any)}
	all := &Matchers{text: text, options: o}
	if !oneNetmask {
		all.own = make(map[network]one)
	}
	refused := 0
	for typ := range all.matchers {
		of := all.compile(headers.Link(typ), o.Netmask)
		if of.err != nil {
			refused++
		}
		if errors.Is(of.err, filter.ErrNothing) && headers.Link(typ) != headers.Ethernet {
			of = one{Matcher: nothing}
		}
		all.matchers[typ] = of
	}
	if refused == len(all.matchers) {
		return nil, all.matchers[headers.Ethernet].err
	}
	return all, nil
}

func (m *Matchers) compile(typ headers.Link, netmask net.IPMask) (of one) {
	o := m.options
	o.LinkType, o.Netmask = headers.LinkNumbers[typ], netmask
	of.Matcher, of.err = NewMatcher(m.text, o)
	return of
}

// nothing matches no packet.
var nothing = &Matcher{filter.MatchesNone(), filter.MatchesNone()}

// Of is the matcher for packets of a link type, or why there is none. netmask is that of the
// packet's interface; nil = not known.
func (m *Matchers) Of(number uint16, netmask net.IPMask) (*Matcher, error) {
	typ := headers.LinkOf(number)
	if typ == headers.UnknownLink {
		return nil, fmt.Errorf("filters do not know %s: choose with tcpdump -r FILE -w - FILTER | xdpcap read -", pcapng.LinkTypeName(number))
	}
	of := m.matchers[typ]
	if of.err == nil && m.own != nil && netmask != nil {
		of = m.forNetwork(network{typ, [net.IPv4len]byte(netmask)})
	}
	if of.err != nil {
		return nil, fmt.Errorf("the filter cannot be applied to %s: %v", pcapng.LinkTypeName(number), of.err)
	}
	return of.Matcher, nil
}

func (m *Matchers) forNetwork(n network) one {
	of, ok := m.own[n]
	if !ok {
		if of = m.compile(n.link, n.netmask[:]); errors.Is(of.err, filter.ErrNothing) {
			of = one{Matcher: nothing}
		}
		m.own[n] = of
	}
	return of
}

// knownNames looks each name up once: the first program asks for all of them, and those that are
// compiled later find them here.
type knownNames struct {
	filter.Resolver
	known map[name]any
}

type name struct{ kind, text string }

func (n *knownNames) Host(text string) ([]netip.Addr, error) {
	return lookUp(n, name{"host", text}, func() ([]netip.Addr, error) { return n.Resolver.Host(text) })
}

func (n *knownNames) Network(text string) (uint32, error) {
	return lookUp(n, name{"network", text}, func() (uint32, error) { return n.Resolver.Network(text) })
}

func (n *knownNames) Port(text, transport string) (uint16, error) {
	return lookUp(n, name{transport, text}, func() (uint16, error) { return n.Resolver.Port(text, transport) })
}

func (n *knownNames) Protocol(text string) (uint32, error) {
	return lookUp(n, name{"protocol", text}, func() (uint32, error) { return n.Resolver.Protocol(text) })
}

func lookUp[T any](n *knownNames, key name, ask func() (T, error)) (T, error) {
	if known, ok := n.known[key].(T); ok {
		return known, nil
	}
	found, err := ask()
	if err == nil {
		n.known[key] = found
	}
	return found, err
}
