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

// A Matcher applies a filter to packets in user space. It has one program for received packets and
// one for sent packets.
type Matcher struct{ received, sent *filter.Program }

// NewMatcher compiles a filter for both directions.
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

// Matchers apply a filter to packets of files: it is compiled for each link type, and for each
// netmask in the files.
type Matchers struct {
	byLink [len(headers.LinkNumbers)]compiled // with the netmask of options

	text    string
	options filter.Options
	// byNetwork are compiled when the first packet needs them; nil = the netmask of options is for
	// all interfaces.
	byNetwork map[network]compiled
}

// compiled is the result of compiling an expression.
type compiled struct {
	*Matcher
	err error // why the expression cannot be compiled for such packets
}

// A network has the properties of an interface on which the compiled filter depends.
type network struct {
	link    headers.Link
	netmask [net.IPv4len]byte
}

// programMatchers returns the Matchers of a program, which is only for Ethernet.
func programMatchers(program *filter.Program) *Matchers {
	all := new(Matchers)
	for typ := range all.byLink {
		all.byLink[typ].err = errors.New("the program of --filter-file is for Ethernet")
	}
	all.byLink[headers.Ethernet] = compiled{Matcher: &Matcher{program, program}}
	return all
}

// newMatchers compiles a filter for each link type, at once, because the sandbox does not permit to
// look up names later. o.Netmask is for interfaces with an unknown netmask or, if oneNetmask is
// true, for all. o.LinkType and o.Resolver are not used. If the filter can be compiled for no link
// type, the error is that for Ethernet.
func newMatchers(text string, o filter.Options, oneNetmask bool) (*Matchers, error) {
	o.Resolver = &knownNames{Resolver: filter.SystemResolver(), known: make(map[name]any)}
	all := &Matchers{text: text, options: o}
	if !oneNetmask {
		all.byNetwork = make(map[network]compiled)
	}
	refused := 0
	for typ := range all.byLink {
		c := all.compile(headers.Link(typ), o.Netmask)
		if c.err != nil {
			refused++
		}
		if headers.Link(typ) != headers.Ethernet {
			c = c.orNoPacket()
		}
		all.byLink[typ] = c
	}
	if refused == len(all.byLink) {
		return nil, all.byLink[headers.Ethernet].err
	}
	return all, nil
}

func (m *Matchers) compile(typ headers.Link, netmask net.IPMask) (c compiled) {
	o := m.options
	o.LinkType, o.Netmask = headers.LinkNumbers[typ], netmask
	c.Matcher, c.err = NewMatcher(m.text, o)
	return c
}

// orNoPacket replaces the error that an expression can match no packet by a Matcher that matches
// none: the files may have packets of another link type that it matches.
func (c compiled) orNoPacket() compiled {
	if errors.Is(c.err, filter.ErrNothing) {
		return compiled{Matcher: &Matcher{filter.MatchesNone(), filter.MatchesNone()}}
	}
	return c
}

// Of returns the matcher for packets of a link type, or the reason why there is none. netmask is
// that of the packet's interface; nil = not known.
func (m *Matchers) Of(number uint16, netmask net.IPMask) (*Matcher, error) {
	typ := headers.LinkOf(number)
	if typ == headers.UnknownLink {
		return nil, fmt.Errorf("filters do not know %s: choose with tcpdump -r FILE -w - FILTER | xdpcap read -", pcapng.LinkTypeName(number))
	}
	c := m.byLink[typ]
	if c.err == nil && m.byNetwork != nil && netmask != nil {
		c = m.forNetwork(network{typ, [net.IPv4len]byte(netmask)})
	}
	if c.err != nil {
		return nil, fmt.Errorf("the filter cannot be applied to %s: %v", pcapng.LinkTypeName(number), c.err)
	}
	return c.Matcher, nil
}

func (m *Matchers) forNetwork(n network) compiled {
	c, ok := m.byNetwork[n]
	if !ok {
		c = m.compile(n.link, n.netmask[:]).orNoPacket()
		m.byNetwork[n] = c
	}
	return c
}

// knownNames is a Resolver that looks each name up once. The compilation for the first link type
// looks up all names of the expression.
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

func lookUp[T any](n *knownNames, key name, resolve func() (T, error)) (T, error) {
	if known, ok := n.known[key].(T); ok {
		return known, nil
	}
	found, err := resolve()
	if err == nil {
		n.known[key] = found
	}
	return found, err
}
