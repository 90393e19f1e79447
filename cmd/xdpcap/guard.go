package main

import (
	"fmt"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A guard keeps a command that drops packets from cutting this machine off. The zero guard allows
// everything.
type guard struct {
	flag       string // the flag that drops packets, as it was given: "--sink"; "" = none does
	interfaces []string
	yes        bool // --yes was given: the user means it
}

// check returns an error where packets would be dropped on an interface over which this machine
// talks: one that has an IP address or carries the default route.
func (g guard) check() error {
	if g.flag == "" || g.yes {
		return nil
	}
	for _, name := range g.interfaces {
		ifi, err := xdp.InterfaceByName(name)
		if err != nil {
			return err
		}
		address, err := ifi.HasAddress()
		if err != nil {
			return err
		}
		defaultRoute, err := ifi.HasDefaultRoute()
		if err != nil {
			return err
		}
		if err := g.refuse(ifi.Name, address, defaultRoute); err != nil {
			return err
		}
	}
	return nil
}

// refuse returns the error for an interface of which this is known, or nil. Of both reasons it
// gives the default route, because more is lost with that.
func (g guard) refuse(name string, address, defaultRoute bool) error {
	var reason string
	switch {
	case defaultRoute:
		reason = "the default route is over " + name
	case address:
		reason = name + " has an IP address"
	default:
		return nil
	}
	return fmt.Errorf("%s drops packets, and %s: this machine would be disturbed or cut off; add --yes if that is meant",
		g.flag, reason)
}
