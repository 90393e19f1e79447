package counters

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A Discovery finds interfaces that come and go, for a command that counts on all interfaces, or on
// all that match a pattern.
type Discovery struct {
	list    func() ([]xdp.Interface, error)
	wants   func(*xdp.Interface) bool
	refused xdp.Retries
}

// NewDiscovery returns a Discovery of the interfaces that wants accepts.
func NewDiscovery(wants func(*xdp.Interface) bool) *Discovery {
	return &Discovery{xdp.Interfaces, wants, make(xdp.Retries)}
}

// Present are all interfaces that exist at one time, wanted or not.
type Present []xdp.Interface

// Present returns the interfaces that exist now.
func (d *Discovery) Present() (Present, error) { return d.list() }

// Has reports whether an interface still exists with the same name.
func (p Present) Has(index int, name string) bool {
	return slices.ContainsFunc(p, func(i xdp.Interface) bool { return i.Index == index && i.Name == name })
}

// OpenNew opens the counters of each interface that is wanted and not counted yet, unless it was
// refused a short time ago. It returns a message about each refusal that differs from the last one.
func (d *Discovery) OpenNew(present Present, isCounted func(index int) bool, open func(*xdp.Interface) error) (refusals []string) {
	for _, ifi := range present {
		if isCounted(ifi.Index) || !d.wants(&ifi) || d.refused.TooEarly(ifi) {
			continue
		}
		if err := open(&ifi); err == nil {
			delete(d.refused, ifi.Index)
		} else if d.refused.Add(ifi, err) {
			refusals = append(refusals, fmt.Sprintf("%s is not counted: %v", ifi.Name, err))
		}
	}
	return refusals
}

// stacked are the drivers of interfaces that get their packets from other interfaces, where they
// are already counted.
var stacked = []string{"802.1Q VLAN Support", "bonding", "bridge", "ipvlan", "macsec", "macvlan", "team"}

// wants reports whether an interface is to be counted on. With patterns, a command about programs
// accepts only interfaces that run one.
func (o *Options) wants(ifi *xdp.Interface) bool {
	if len(o.Interfaces) == 0 {
		return countable(ifi)
	}
	return o.Interfaces.Include(ifi) && (len(ifi.Programs) > 0 || !o.tracesOnly)
}

// countable reports whether an interface is counted on when none is named. It must be up, have
// Ethernet headers, and not be loopback. A stacked one must run a program.
func countable(ifi *xdp.Interface) bool {
	obstacle, _ := ifi.Obstacle()
	return obstacle == "" && ifi.Type != "loopback" && (len(ifi.Programs) > 0 || !slices.Contains(stacked, ifi.Driver))
}

// beginDiscovery opens the counters of all wanted interfaces, or prints that there is none yet.
func (r *counterRun) beginDiscovery() {
	r.discovery = NewDiscovery(r.o.wants)
	r.discover()
	if len(r.counted) == 0 && r.o.tracesOnly {
		r.tell("no XDP program to count yet: waiting for one")
	} else if len(r.counted) == 0 {
		r.tell("no interface to count on yet: waiting for one")
	}
}

// discover opens the counters of interfaces that are new or have come up, and closes the counters,
// and so the metrics, of interfaces that have gone.
func (r *counterRun) discover() {
	ifis, err := r.discovery.Present()
	if err != nil {
		r.tell(err.Error())
		return
	}
	for _, c := range slices.Clone(r.counted) {
		if !slices.Contains(r.counted, c) {
			continue // drop has ended it with another counter of its interface
		}
		if !ifis.Has(c.index, c.name) {
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
	isCounted := func(index int) bool {
		return slices.ContainsFunc(r.counted, func(c *counted) bool { return c.index == index })
	}
	refusals := r.discovery.OpenNew(ifis, isCounted, func(ifi *xdp.Interface) error { return r.begin(ifi.Index, ifi.Name) })
	const few = 4
	if opened := r.counted[known:]; len(opened) > few {
		r.tell(fmt.Sprintf("listening on %v and %d more", opened[0], len(opened)-1))
	} else {
		for _, c := range opened {
			r.tell(fmt.Sprintf("listening on %v", c))
		}
	}
	for _, text := range refusals {
		r.tell(text)
	}
}

// drop ends all counters of the interface to which one belongs, and prints why. Only all of them
// together can begin again.
func (r *counterRun) drop(one *counted, why string) {
	r.tell(why)
	r.counted = slices.DeleteFunc(r.counted, func(c *counted) bool {
		if c.index != one.index {
			return false
		}
		if err := r.end(c); err != nil {
			r.tell(err.Error())
		}
		return true
	})
}

// discoveryNeeds are the capabilities for interfaces that are found later: there counters trace a
// program or attach their own.
var discoveryNeeds = []int{unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_NET_ADMIN, unix.CAP_SYS_ADMIN}
