package counters

import (
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A discovery counts on all interfaces that exist at any time, for a command that exports its
// counters and has no -i. It opens the counters of an interface that is new or has come up. It
// closes those of an interface that has gone, whose metrics then end. It belongs to the goroutine
// of its run.
type discovery struct {
	list    func() ([]xdp.Interface, error)
	refused map[int]refusedInterface // by index
}

// A refusedInterface is one on which counting failed, with the state that it had then.
type refusedInterface struct {
	state string
	at    time.Time
	why   string
}

// refusedFor is the time after which such an interface is tried again. It is tried earlier if its
// state changes.
const refusedFor = time.Minute

func newDiscovery() *discovery {
	return &discovery{list: xdp.Interfaces, refused: make(map[int]refusedInterface)}
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
	ifis, err := r.discovery.list()
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

// try opens the counters of an interface. It prints an error once.
func (r *counterRun[S]) try(ifi *xdp.Interface) {
	state := fmt.Sprint(ifi.Name, ifi.Mode, ifi.Programs)
	before := r.discovery.refused[ifi.Index]
	if before.state == state && time.Since(before.at) < refusedFor {
		return
	}
	known := len(r.counted)
	if err := r.begin(ifi.Index, ifi.Name); err != nil {
		if err.Error() != before.why {
			r.tell(fmt.Sprintf("%s is not counted: %v", ifi.Name, err))
		}
		r.discovery.refused[ifi.Index] = refusedInterface{state: state, at: time.Now(), why: err.Error()}
		return
	}
	delete(r.discovery.refused, ifi.Index)
	for _, c := range r.counted[known:] {
		r.tell(fmt.Sprintf("listening on %v", c.Counters))
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
