package counters

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/discovery"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// discovered counts on all interfaces that exist at any time, for a command that exports its
// counters and has no -i. It opens the counters of an interface that is new or has come up. It
// closes those of an interface that has gone, whose metrics then end. It belongs to the goroutine
// of its run.
type discovered struct {
	list    func() ([]xdp.Interface, error)
	refused discovery.Refusals
}

func newDiscovered() *discovered {
	return &discovered{list: xdp.Interfaces, refused: make(discovery.Refusals)}
}

// stacked are the drivers of interfaces that get their packets from other interfaces, where they
// are already counted.
var stacked = []string{"802.1Q VLAN Support", "bonding", "bridge", "ipvlan", "macsec", "macvlan", "team"}

// countable says whether an interface is counted on when none is named. It must be up, have
// Ethernet headers, and not be loopback. One that only hands on the packets of other interfaces
// must run a program.
func countable(ifi *xdp.Interface) bool {
	obstacle, _ := ifi.Obstacle()
	return obstacle == "" && ifi.Type != "loopback" && (len(ifi.Programs) > 0 || !slices.Contains(stacked, ifi.Driver))
}

// discover goes through the interfaces that exist now.
func (r *counterRun[S]) discover() {
	ifis, err := r.discovered.list()
	if err != nil {
		r.tell(err.Error())
		return
	}
	find := func(index int, name string) bool {
		return slices.ContainsFunc(ifis, func(i xdp.Interface) bool { return i.Index == index && i.Name == name })
	}
	for _, c := range slices.Clone(r.counted) {
		if !slices.Contains(r.counted, c) {
			continue // it has ended together with other counters of its interface
		}
		if !find(c.index, c.name) {
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
	for _, ifi := range ifis {
		is := func(c *counted[S]) bool { return c.index == ifi.Index }
		if countable(&ifi) && !slices.ContainsFunc(r.counted, is) {
			r.try(&ifi)
		}
	}
}

// try opens the counters of an interface, unless it was refused a short time ago. It prints an
// error once.
func (r *counterRun[S]) try(ifi *xdp.Interface) {
	refused := r.discovered.refused
	if refused.Stand(*ifi) {
		return
	}
	known := len(r.counted)
	if err := r.begin(ifi.Index, ifi.Name); err != nil {
		if refused.Add(*ifi, err) {
			r.tell(fmt.Sprintf("%s is not counted: %v", ifi.Name, err))
		}
		return
	}
	delete(refused, ifi.Index)
	for _, c := range r.counted[known:] {
		r.tell(fmt.Sprintf("listening on %v", c.Counter))
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
