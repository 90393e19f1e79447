package pods

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Ids of network namespaces, besides those of the kernel, which count from 0.
const (
	noID   = -1 // the namespace has no id here
	itself = -2 // the view's own namespace
)

// A view is a netlink socket in one network namespace, which looks up other namespaces by their
// ids. It belongs to one goroutine.
type view struct{ socket *nl.NetlinkSocket }

// openView opens the view of a network namespace; nil = that of the calling thread. Any other one
// needs CAP_SYS_ADMIN.
func openView(ns *os.File) (*view, error) {
	at := netns.None()
	if ns != nil {
		at = netns.NsHandle(ns.Fd())
	}
	s, err := nl.GetNetlinkSocketAt(at, netns.None(), unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open a netlink socket: %w", err)
	}
	// Without strict checks the kernel ignores the requested namespace.
	if err := unix.SetsockoptInt(s.GetFd(), unix.SOL_NETLINK, unix.NETLINK_GET_STRICT_CHK, 1); err != nil {
		s.Close()
		return nil, fmt.Errorf("let netlink check what it is asked: %w", err)
	}
	return &view{s}, nil
}

func (v *view) close() { v.socket.Close() }

// request sends a request and returns the answers. An answer may be missing if interfaces changed
// meanwhile.
func (v *view) request(kind, flags int, answer uint16, data ...nl.NetlinkRequestData) ([][]byte, error) {
	request := nl.NewNetlinkRequest(kind, flags)
	request.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: {Seq: request.Seq, Socket: v.socket}}
	for _, d := range data {
		request.AddData(d)
	}
	answers, err := request.Execute(unix.NETLINK_ROUTE, answer)
	if errors.Is(err, nl.ErrDumpInterrupted) {
		err = nil
	}
	return answers, err
}

// links returns, by the index of each interface that is one end of a pair, the id of the network
// namespace at the other end. The request makes the kernel give that namespace an id.
func (v *view) links() (map[int]int, error) {
	answers, err := v.request(unix.RTM_GETLINK, unix.NLM_F_DUMP, unix.RTM_NEWLINK, nl.NewIfInfomsg(unix.AF_UNSPEC))
	if err != nil {
		return nil, fmt.Errorf("list the network interfaces: %w", err)
	}
	links := make(map[int]int)
	for _, m := range answers {
		l, err := netlink.LinkDeserialize(nil, m)
		if err != nil {
			return nil, fmt.Errorf("list the network interfaces: %w", err)
		}
		if a := l.Attrs(); a.NetNsID >= 0 {
			links[a.Index] = a.NetNsID
		}
	}
	return links, nil
}

// id returns the id of another namespace in the view's namespace, or noID.
func (v *view) id(ns *os.File) (int, error) {
	answers, err := v.request(unix.RTM_GETNSID, 0, unix.RTM_NEWNSID, nl.NewRtGenMsg(), nl.NewRtAttr(netlink.NETNSA_FD, nl.Uint32Attr(uint32(ns.Fd()))))
	if err != nil {
		return noID, fmt.Errorf("ask for the id of the network namespace %s: %w", ns.Name(), err)
	}
	for _, m := range answers {
		if id := attributes(m, nl.NewRtGenMsg().Len())[netlink.NETNSA_NSID].Value; len(id) >= 4 {
			return int(int32(nl.NativeEndian().Uint32(id))), nil
		}
	}
	return noID, nil
}

// addresses returns the addresses of the pod in the namespace with this id: at most one of IPv4 and
// one of IPv6, which is as many as Kubernetes assigns, without addresses that are valid only on a
// link or within the namespace. It chooses the oldest ones: a pod with the right to change its
// interfaces can add any number of addresses, even those of other hosts, and each would get the
// pod's name.
func (v *view) addresses(id int) ([]netip.Addr, error) {
	var all []netip.Addr
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		data := []nl.NetlinkRequestData{nl.NewIfAddrmsg(family)}
		if id != itself {
			data = append(data, nl.NewRtAttr(unix.IFA_TARGET_NETNSID, nl.Uint32Attr(uint32(id))))
		}
		answers, err := v.request(unix.RTM_GETADDR, unix.NLM_F_DUMP, unix.RTM_NEWADDR, data...)
		if err != nil {
			return nil, fmt.Errorf("list the addresses of a pod: %w", err)
		}
		var oldest netip.Addr
		var since uint32
		for _, m := range answers {
			a, made := address(m)
			age := int32(made - since) // the kernel's number wraps after 497 days
			// Of an interface the kernel lists the newest address of IPv6 first, and of IPv4 last.
			if a.IsGlobalUnicast() && (!oldest.IsValid() || age < 0 || age == 0 && a.Is6()) {
				oldest, since = a, made
			}
		}
		if oldest.IsValid() {
			all = append(all, oldest)
		}
	}
	return all, nil
}

// address parses an answer to RTM_GETADDR. It returns the local address if the link has two ends.
// made is the time at which the address was added, in hundredths of a second since the machine
// booted.
func address(m []byte) (a netip.Addr, made uint32) {
	attrs := attributes(m, nl.NewIfAddrmsg(unix.AF_UNSPEC).Len())
	a, ok := netip.AddrFromSlice(attrs[unix.IFA_LOCAL].Value)
	if !ok {
		a, _ = netip.AddrFromSlice(attrs[unix.IFA_ADDRESS].Value)
	}
	if info := attrs[unix.IFA_CACHEINFO].Value; len(info) >= 12 { // struct ifa_cacheinfo
		made = nl.NativeEndian().Uint32(info[8:])
	}
	return a, made
}

// attributes returns the attributes after the head of a message, by kind; nil = it is malformed.
func attributes(m []byte, head int) map[uint16]syscall.NetlinkRouteAttr {
	attrs, _ := nl.ParseRouteAttrAsMap(m[min(head, len(m)):])
	return attrs
}
