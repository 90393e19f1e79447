package filtertest

import (
	"fmt"
	"net/netip"
)

// Resolver resolves a few names, and is the same on every machine.
type Resolver struct{}

func (Resolver) Host(name string) ([]netip.Addr, error) {
	if name == "both.example" {
		return []netip.Addr{netip.MustParseAddr("2001:db8::5"), netip.MustParseAddr("::ffff:192.0.2.5")}, nil
	}
	return nil, fmt.Errorf("no host %s", name)
}

func (Resolver) Network(name string) (uint32, error) {
	if name == "lab" {
		return 10<<8 | 9, nil
	}
	return 0, fmt.Errorf("no network %s", name)
}

func (Resolver) Port(name, transport string) (uint16, error) {
	if p, ok := map[string]uint16{"web/tcp": 80, "web/udp": 80, "log/udp": 514, "odd/tcp": 1, "odd/udp": 2}[name+"/"+transport]; ok {
		return p, nil
	}
	return 0, fmt.Errorf("no port %s", name)
}

func (Resolver) Protocol(name string) (uint32, error) {
	if name == "gre" {
		return 47, nil
	}
	return 0, fmt.Errorf("no protocol %s", name)
}
