package pods

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// Owners map interfaces and addresses to pods, as of the call of FindOwners. nil = there are no
// pods.
type Owners struct {
	own       *Pod         // the pod in whose network namespace FindOwners was called; nil = it is no pod's
	byLink    map[int]*Pod // by the indices of interfaces of that namespace
	addresses []Address
}

// An Address is an IP address of a pod.
type Address struct {
	netip.Addr
	Pod *Pod
}

// FindOwners finds the interfaces of the calling thread's network namespace that belong to pods,
// and the pods' addresses. home is the network namespace of the host if this thread has left it;
// nil = it has not.
//
// An interface belongs to a pod if it is in the pod's network namespace, or if it is one end of a
// pair whose other end is there. The kernel reports the ids of the namespaces at the other ends
// without any privilege, but addresses in them only with CAP_NET_ADMIN. Addresses of a pod without
// such a pair, as with ipvlan, macvlan and SR-IOV, cannot be found from outside of the pod.
func FindOwners(all []Pod, home *os.File) (*Owners, error) {
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
		// To list links makes the kernel give ids, within this namespace, to the namespaces at the
		// other ends. outside.id needs them.
		_, err = outside.links()
	}
	if err != nil {
		return nil, err
	}
	found := make(map[netip.Addr][]*Pod)
	var errs []error
	for i := range all {
		addresses, err := o.addPod(&all[i], links, here, outside)
		errs = append(errs, err)
		for _, a := range addresses {
			found[a] = append(found[a], &all[i])
		}
	}
	o.recordAddresses(all, found)
	return o, errors.Join(errs...)
}

// addPod records the interfaces of a pod, and returns its addresses. A pod that has ended has
// neither.
func (o *Owners) addPod(p *Pod, links map[int]int, here, outside *view) ([]netip.Addr, error) {
	if p.Netns == "" || p.check() != nil {
		return nil, nil
	}
	ns, err := os.OpenFile(p.Netns, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil
	}
	defer ns.Close()
	isHere, err := isOwn(ns)
	if err != nil {
		return nil, err
	}
	if isHere {
		o.own = p
		return here.addresses(itself)
	}
	id, err := here.id(ns)
	if err != nil {
		return nil, err
	}
	for index, peer := range links { // noID is not among them
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

// isOwn reports whether a network namespace is that of this thread.
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

// recordAddresses keeps the addresses that belong to exactly one pod, in the order of the pods. If
// several pods have the same address, in separate networks, a name would be wrong for all but one
// of them.
func (o *Owners) recordAddresses(all []Pod, found map[netip.Addr][]*Pod) {
	byPod := make(map[*Pod][]netip.Addr)
	for a, pods := range found {
		if len(pods) == 1 {
			byPod[pods[0]] = append(byPod[pods[0]], a)
		}
	}
	for i := range all {
		addresses := byPod[&all[i]]
		slices.SortFunc(addresses, netip.Addr.Compare) // IPv4 comes first
		for _, a := range addresses {
			o.addresses = append(o.addresses, Address{a, &all[i]})
		}
	}
}

// Of returns the pod of an interface of the network namespace in which FindOwners was called; nil =
// it belongs to no pod.
func (o *Owners) Of(index int) *Pod {
	switch {
	case o == nil:
		return nil
	case o.own != nil:
		return o.own
	}
	return o.byLink[index]
}

// Addresses returns the addresses that FindOwners found: for each pod at most one of IPv4 and one
// of IPv6, the oldest, and no link-local one.
func (o *Owners) Addresses() []Address {
	if o == nil {
		return nil
	}
	return o.addresses
}
