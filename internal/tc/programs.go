package tc

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A Running program is another program at an interface's ingress or egress: of tcx, or in a filter
// of the qdisc clsact or ingress.
type Running struct {
	xdp.Program
	At   Direction
	link link.ID // of tcx; 0 = there is no link
}

// Programs lists the programs at tc of an interface, the received side first. It needs
// CAP_NET_ADMIN, and CAP_SYS_ADMIN for their names.
func Programs(ifi xdp.Interface) (all []Running, err error) {
	for _, at := range []Direction{Ingress, Egress} {
		here, err := programsAt(ifi.Index, at)
		if err != nil {
			return nil, fmt.Errorf("list the programs at tc %v of %s: %w", at, ifi.Name, err)
		}
		all = append(all, here...)
	}
	for i := range all {
		all[i].Name = xdp.ProgramName(all[i].ID)
	}
	return all, nil
}

func programsAt(index int, at Direction) (all []Running, err error) {
	result, err := link.QueryPrograms(link.QueryOptions{Target: index, Attach: directions[at].tcx})
	switch {
	case err == nil:
		for _, p := range result.Programs {
			id, _ := p.LinkID()
			all = append(all, Running{Program: xdp.Program{ID: uint32(p.ID)}, At: at, link: id})
		}
	case !errors.Is(err, ebpf.ErrNotSupported) && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT):
		return nil, err
	}
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	ids, err := filterPrograms(h, index, at)
	for _, id := range ids {
		all = append(all, Running{Program: xdp.Program{ID: id}, At: at})
	}
	return all, err
}

// filtersAt lists the filters on one side of an interface.
func filtersAt(h *netlink.Handle, index int, at Direction) ([]netlink.Filter, error) {
	return xdp.Dump(func() ([]netlink.Filter, error) { return h.FilterList(device(index), directions[at].parent) })
}

// filterPrograms returns the ids of the programs in filters on one side of an interface.
func filterPrograms(h *netlink.Handle, index int, at Direction) (ids []uint32, err error) {
	filters, err := filtersAt(h, index, at)
	for _, f := range filters {
		if b, ok := f.(*netlink.BpfFilter); ok && b.Id > 0 {
			ids = append(ids, uint32(b.Id))
		}
	}
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) { // there is no such qdisc
		err = nil
	}
	return ids, err
}

// A Watch checks whether a program still runs at tc of an interface. It keeps using the network
// namespace of the thread that opened it.
type Watch struct {
	name    string // of the interface
	index   int
	of      xdp.Program
	netlink *netlink.Handle
	links   []link.Link // of tcx
	hidden  bool        // it is also at tcx without a link, which only CAP_NET_ADMIN can list: Check returns nil
}

// WatchProgram watches a program at the places where it runs.
func WatchProgram(ifi xdp.Interface, of xdp.Program, places []Running) (w *Watch, err error) {
	w = &Watch{name: ifi.Name, index: ifi.Index, of: of}
	if w.netlink, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
		return nil, fmt.Errorf("open a netlink socket: %w", err)
	}
	inFilters, err := w.inFilters()
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	for _, p := range places {
		if p.link == 0 {
			w.hidden = w.hidden || !inFilters
			continue
		}
		l, err := link.NewFromID(p.link)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open the tcx link %d of program %v: %w", p.link, of, err), w.Close())
		}
		w.links = append(w.links, l)
	}
	return w, nil
}

func (w *Watch) inFilters() (bool, error) {
	for _, at := range []Direction{Ingress, Egress} {
		ids, err := filterPrograms(w.netlink, w.index, at)
		if err != nil || slices.Contains(ids, w.of.ID) {
			return err == nil, err
		}
	}
	return false, nil
}

// Check returns an error if the program no longer runs at tc of the interface. If the query fails,
// it returns nil. It needs no privilege.
func (w *Watch) Check() error {
	if w.hidden {
		return nil
	}
	for _, l := range w.links {
		info, err := l.Info()
		if err != nil {
			return nil
		}
		if tcx := info.TCX(); tcx == nil || tcx.Ifindex != 0 && uint32(info.Program) == w.of.ID {
			return nil
		}
	}
	if in, err := w.inFilters(); in || err != nil {
		return nil
	}
	return fmt.Errorf("program %v has left tc of %s", w.of, w.name)
}

// Close ends the watch.
func (w *Watch) Close() error {
	w.netlink.Close()
	var errs []error
	for _, l := range w.links {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}
