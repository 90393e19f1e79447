package culprit

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"github.com/xdpcap/xdpcap/internal/lost"
	"golang.org/x/sys/unix"
)

// A Flow has the addresses of a lost packet.
type Flow struct {
	Source, Destination netip.Addr
	Protocol            string // "udp"
	Port                uint16 // of the destination, 0 = it has none
}

func (f Flow) isValid() bool { return f.Source.IsValid() && f.Destination.IsValid() }

// refusals are the reasons of the kernel's errors for a packet without a route.
var refusals = map[error]string{
	unix.ENETUNREACH:  "no route",
	unix.EHOSTUNREACH: "no route, or one of the type unreachable",
	unix.EINVAL:       "a route of the type blackhole",
	unix.EACCES:       "a route of the type prohibit",
}

const unknown = "?"

// routeTo looks up a route as `ip route get` does. iif is the interface that the packet came in on,
// "" = this host sent it. refusal is why there is no route, or the constant unknown; "" = there is
// a route.
func routeTo(to, from netip.Addr, iif string) (r netlink.Route, refusal string) {
	o := &netlink.RouteGetOptions{Iif: iif}
	if iif != "" {
		o.SrcAddr = from.AsSlice()
	}
	routes, err := netlink.RouteGetWithOptions(to.AsSlice(), o)
	if err == nil && len(routes) > 0 {
		return routes[0], ""
	}
	for number, words := range refusals {
		if errors.Is(err, number) {
			return r, words
		}
	}
	return r, unknown
}

// findRoute looks up again the route that a packet lacked.
func (f *Finder) findRoute(l Loss, _ lost.Counters) []Evidence {
	p, iif := l.Example, l.Device
	if l.Egress {
		iif = ""
	}
	text := fmt.Sprintf("to %v", p.Destination)
	if iif != "" {
		text += fmt.Sprintf(" from %v at %s", p.Source, iif)
	}
	r, refusal := routeTo(p.Destination, p.Source, iif)
	switch refusal {
	case unknown:
		return nil
	case "":
		return []Evidence{{Text: text + ": there is a route now: " + hopOf(r)}}
	}
	return []Evidence{{Text: text + ": " + refusal, Rule: refusal}}
}

// findWayBack looks up the route back to the source of a packet that the reverse path filter
// dropped.
func (f *Finder) findWayBack(l Loss, _ lost.Counters) []Evidence {
	r, refusal := routeTo(l.Example.Source, netip.Addr{}, "")
	if refusal == unknown {
		return nil
	}
	way := refusal
	if way == "" {
		way = hopOf(r)
	}
	return []Evidence{{Text: fmt.Sprintf("from %v at %s: the way back is %s", l.Example.Source, l.Device, way), Rule: way}}
}

// hopOf returns the gateway and the interface of a route: "via 192.0.2.1 dev eth0".
func hopOf(r netlink.Route) string {
	hop := "dev " + NameOfLink(r.LinkIndex)
	if r.Gw != nil {
		hop = fmt.Sprintf("via %v %s", r.Gw, hop)
	}
	return hop
}

// findPort names the port without a socket.
func (f *Finder) findPort(l Loss, _ lost.Counters) []Evidence {
	p := l.Example
	if p.Port == 0 {
		return nil
	}
	return []Evidence{{Text: fmt.Sprintf("one was for %s %v, from %v", p.Protocol, netip.AddrPortFrom(p.Destination, p.Port), p.Source)}}
}

// findMTU looks up the MTU of a packet's route, or else of its interface.
func (f *Finder) findMTU(l Loss, _ lost.Counters) []Evidence {
	r, refusal := routeTo(l.Example.Destination, netip.Addr{}, "")
	if refusal != "" {
		return nil
	}
	mtu, owner := r.MTU, "of the route"
	if mtu == 0 {
		mtu, owner = mtuOf(NameOfLink(r.LinkIndex)), "of the interface"
	}
	return []Evidence{{Text: fmt.Sprintf("to %v: %s, MTU %s %d", l.Example.Destination, hopOf(r), owner, mtu)}}
}

// findPortMTU returns the MTU of a bridge's port.
func (f *Finder) findPortMTU(l Loss, _ lost.Counters) []Evidence {
	if mtu := mtuOf(l.Device); mtu > 0 {
		return []Evidence{{Text: fmt.Sprintf("%s, MTU %d", l.Device, mtu)}}
	}
	return nil
}

// mtuOf returns the MTU of an interface; 0 = unknown.
func mtuOf(name string) int {
	l, err := net.InterfaceByName(name)
	if err != nil {
		return 0
	}
	return l.MTU
}

// NameOfLink returns the name of an interface, or "interface 7" if it has gone.
func NameOfLink(index int) string {
	l, err := net.InterfaceByIndex(index)
	if err != nil {
		return fmt.Sprint("interface ", index)
	}
	return l.Name
}

// findNeighbour looks up whether the next hop of a packet answers.
func (f *Finder) findNeighbour(l Loss, _ lost.Counters) []Evidence {
	to := l.Example.Destination
	r, refusal := routeTo(to, netip.Addr{}, "")
	if refusal != "" {
		return nil
	}
	next := net.IP(to.AsSlice())
	if r.Gw != nil {
		next = r.Gw
	}
	text := fmt.Sprintf("%v at %s", next, NameOfLink(r.LinkIndex))
	if !next.Equal(to.AsSlice()) {
		text += fmt.Sprintf(", the gateway to %v", to)
	}
	neighbours, err := netlink.NeighList(r.LinkIndex, 0)
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return nil
	}
	for _, n := range neighbours {
		if n.IP.Equal(next) && n.State&(netlink.NUD_FAILED|netlink.NUD_INCOMPLETE) == 0 {
			return []Evidence{{Text: text + " answers now"}}
		}
	}
	return []Evidence{{Text: text + " does not answer"}}
}
