package counters

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A Discovery finds the interfaces that exist at any time, for a command that counts at all of
// them, or at those that patterns name.
type Discovery struct {
	list    func() ([]xdp.Interface, error)
	wants   func(*xdp.Interface) bool
	refused xdp.Refusals
}

// NewDiscovery finds the interfaces that are wanted.
func NewDiscovery(wants func(*xdp.Interface) bool) *Discovery {
	return &Discovery{xdp.Interfaces, wants, make(xdp.Refusals)}
}

// Present are all interfaces of a moment, wanted or not.
type Present []xdp.Interface

// Look returns the interfaces that exist now.
func (d *Discovery) Look() (Present, error) { return d.list() }

// Have reports whether an interface is there, and has the same name.
func (p Present) Have(index int, name string) bool {
	return slices.ContainsFunc(p, func(i xdp.Interface) bool { return i.Index == index && i.Name == name })
}

// Try opens the counters of an interface if it is wanted, unless it was refused a short time ago.
// It returns a new refusal as text.
func (d *Discovery) Try(ifi *xdp.Interface, open func() error) (refusal string) {
	if !d.wants(ifi) || d.refused.Stand(*ifi) {
		return ""
	}
	err := open()
	switch {
	case err == nil:
		delete(d.refused, ifi.Index)
	case d.refused.Add(*ifi, err):
		return fmt.Sprintf("%s is not counted: %v", ifi.Name, err)
	}
	return ""
}

// stacked are the drivers of interfaces that get their packets from other interfaces, where they
// are already counted.
var stacked = []string{"802.1Q VLAN Support", "bonding", "bridge", "ipvlan", "macsec", "macvlan", "team"}

// wants says whether an interface is counted on. With patterns a command that only tells about
// programs attaches none of its own.
func (o *Options) wants(ifi *xdp.Interface) bool {
	if len(o.Interfaces) == 0 {
		return countable(ifi)
	}
	return o.Interfaces.Include(ifi) && (len(ifi.Programs) > 0 || !o.tracesOnly)
}

// countable says whether an interface is counted on when none is named. It must be up, have
// Ethernet headers, and not be loopback. One that only hands on the packets of other interfaces
// must run a program.
func countable(ifi *xdp.Interface) bool {
	obstacle, _ := ifi.Obstacle()
	return obstacle == "" && ifi.Type != "loopback" && (len(ifi.Programs) > 0 || !slices.Contains(stacked, ifi.Driver))
}

// discover opens the counters of interfaces that are new or have come up, and closes those of
// interfaces that have gone, whose metrics then end.
func (r *counterRun[S]) discover() {
	ifis, err := r.discovery.Look()
	if err != nil {
		r.tell(err.Error())
		return
	}
	for _, c := range slices.Clone(r.counted) {
		if !slices.Contains(r.counted, c) {
			continue // it has ended together with other counters of its interface
		}
		if !ifis.Have(c.index, c.name) {
			r.drop(c, c.name+" has gone")
			continue
		}
		switch notice, err := c.Follow(); {
		case err != nil:
			r.drop(c, err.Error())
		case notice != "":
			r.tell(notice)
		}
	}
	known := len(r.counted)
	var refusals []string
	for _, ifi := range ifis {
		if slices.ContainsFunc(r.counted, func(c *counted[S]) bool { return c.index == ifi.Index }) {
			continue
		}
		if refusal := r.discovery.Try(&ifi, func() error { return r.begin(ifi.Index, ifi.Name) }); refusal != "" {
			refusals = append(refusals, refusal)
		}
	}
	const few = 4
	if come := r.counted[known:]; len(come) > few {
		r.tell(fmt.Sprintf("listening on %v and %d more", come[0].Counter, len(come)-1))
	} else {
		for _, c := range come {
			r.tell(fmt.Sprintf("listening on %v", c.Counter))
		}
	}
	for _, text := range refusals {
		r.tell(text)
	}
}

// drop ends all counters of the interface to which one belongs, and prints why. They begin again
// together, if at all.
func (r *counterRun[S]) drop(one *counted[S], why string) {
	r.tell(why)
	r.counted = slices.DeleteFunc(r.counted, func(c *counted[S]) bool {
		if c.index != one.index {
			return false
		}
		if err := r.end(c); err != nil {
			r.tell(err.Error())
		}
		return true
	})
}

// discoveryNeeds are the capabilities for counting on interfaces that are found later, where
// counters trace a program or attach their own.
var discoveryNeeds = []int{unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_NET_ADMIN, unix.CAP_SYS_ADMIN}
