package pods

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// Owners say which pod an interface and an address belong to, as of the moment of Look.
type Owners struct {
	own    *Pod         // whose network namespace Look was called in; nil = no pod's
	byLink map[int]*Pod // by the indices of interfaces of that namespace
	named  []Address
}

// An Address is an IP address of a pod.
type Address struct {
	netip.Addr
	Pod *Pod
}

// Look finds the interfaces of the calling thread's network namespace that belong to pods, and the
// pods' addresses. home is the network namespace of the host if this thread has left it; nil = it
// has not.
//
// An interface belongs to a pod if it is in the pod's network namespace, or if it is one end of a
// pair and the other end is there. The kernel tells the ids of the namespaces at the other ends
// without any privilege, and addresses in them only with CAP_NET_ADMIN. Addresses of a pod without
// such a pair, as with ipvlan, macvlan and SR-IOV, are not known outside of the pod.
func Look(all []Pod, home *os.File) (*Owners, error) {
	o := &Owners{byLink: make(map[int]*Pod)}
	here, err := openView(nil)
	if err != nil {
		return nil, err
	}
	defer here.close()
	outside := here
	if home != nil {
		if outside, err = openView(home); err != nil {
			return nil, err
		}
		defer outside.close()
	}
	links, err := here.links()
	if err == nil && outside != here {
		_, err = outside.links() // gives ids to the namespaces at the other ends
	}
	if err != nil {
		return nil, err
	}
	found := make(map[netip.Addr][]*Pod)
	var errs []error
	for i := range all {
		addresses, err := o.look(&all[i], links, here, outside)
		errs = append(errs, err)
		for _, a := range addresses {
			found[a] = append(found[a], &all[i])
		}
	}
	o.name(all, found)
	return o, errors.Join(errs...)
}

// look finds out what belongs to a pod, and returns its addresses. One that has ended has nothing.
func (o *Owners) look(p *Pod, links map[int]int, here, outside *view) ([]netip.Addr, error) {
	if p.Netns == "" || p.check() != nil {
		return nil, nil
	}
	ns, err := os.OpenFile(p.Netns, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil
	}
	defer ns.Close()
	ours, err := isOwn(ns)
	if err != nil {
		return nil, err
	}
	if ours {
		o.own = p
		return here.addresses(itself)
	}
	id, err := here.id(ns)
	if err != nil {
		return nil, err
	}
	for index, peer := range links {
		if peer == id {
			o.byLink[index] = p
		}
	}
	if outside != here {
		if id, err = outside.id(ns); err != nil {
			return nil, err
		}
	}
	if id == noID {
		return nil, nil
	}
	addresses, err := outside.addresses(id)
	if errors.Is(err, unix.EPERM) {
		return nil, nil
	}
	return addresses, err
}

// isOwn tells whether a network namespace is that of this thread.
func isOwn(ns *os.File) (bool, error) {
	const path = "/proc/thread-self/ns/net"
	var a, b unix.Stat_t
	if err := unix.Fstat(int(ns.Fd()), &a); err != nil {
		return false, fmt.Errorf("look at the network namespace %s: %w", ns.Name(), err)
	}
	if err := unix.Stat(path, &b); err != nil {
		return false, fmt.Errorf("look at %s: %w", path, err)
	}
	return a.Dev == b.Dev && a.Ino == b.Ino, nil
}

// name notes the addresses that belong to one pod, in the order of the pods. Where several pods
// have the same, in networks that do not see each other, a name would be wrong for one of them.
func (o *Owners) name(all []Pod, found map[netip.Addr][]*Pod) {
	byPod := make(map[*Pod][]netip.Addr)
	for a, pods := range found {
		if len(pods) == 1 {
			byPod[pods[0]] = append(byPod[pods[0]], a)
		}
	}
	for i := range all {
		its := byPod[&all[i]]
		slices.SortFunc(its, netip.Addr.Compare) // those of IPv4 come first
		for _, a := range its {
			o.named = append(o.named, Address{a, &all[i]})
		}
	}
}

// Of returns the pod that an interface of the network namespace of Look belongs to; nil = none.
func (o *Owners) Of(index int) *Pod {
	switch {
	case o == nil:
		return nil
	case o.own != nil:
		return o.own
	}
	return o.byLink[index]
}

// Addresses returns the addresses of all pods that are known: at most one of IPv4 and one of IPv6
// of each, the oldest, and no link-local one.
func (o *Owners) Addresses() []Address {
	if o == nil {
		return nil
	}
	return o.named
}
