package tc

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// xdpcap's filters have one of these names. Each capture has another handle, from firstHandle on or
// at random. filterNameOwner means that an xdpcap has made the qdisc, which the last such capture
// removes.
const (
	filterName      = "xdpcap"
	filterNameOwner = "xdpcap:clsact"

	stubName    = "xdpcap_" // and the direction
	unspecified = -1        // TC_ACT_UNSPEC: the next filter decides

	firstHandle = 0x78646301 // the bytes of "xdc", and 1
	lastHandle  = 0x786463ff

	// Random handles are for the case that a process claims all handles up to lastHandle.
	randomHandle = 0x79000000
	randomMask   = 0x00ffffff
)

// A clsactFilter is a program in a filter of the qdisc clsact. The kernel keeps the filter when the
// process dies, so the filter runs a stub, which then does nothing. The next process recognizes a
// leftover because its handle is not claimed.
type clsactFilter struct {
	netlink *netlink.Handle
	ifindex int
	at      Direction
	stub    *xdp.Stub

	priority uint16
	handle   uint32
	id       int    // of the stub
	claim    *claim // of the handle
	turn     *turn  // for detaching
	before   int    // the number of others' filters with smaller priorities
	owner    bool   // an xdpcap has made the qdisc
}

func attachClsact(prog *ebpf.Program, ifindex int, at Direction) (*clsactFilter, error) {
	stub, err := xdp.NewStub(prog, ebpf.ProgramSpec{Name: stubName + at.String(), Type: ebpf.SchedCLS, License: "Dual BSD/GPL"}, unspecified)
	if err != nil {
		return nil, err
	}
	own, err := xdp.Identify(stub.Program)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("ask for the program's id: %w", err), stub.Close())
	}
	c := &clsactFilter{ifindex: ifindex, at: at, stub: stub, id: int(own.ID)}
	if c.netlink, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
		return nil, errors.Join(fmt.Errorf("open a netlink socket: %w", err), stub.Close())
	}
	if err := c.attach(); err != nil {
		return nil, errors.Join(err, c.detach())
	}
	return c, nil
}

func (c *clsactFilter) attach() (err error) {
	if c.turn, err = newTurn(c.ifindex); err != nil {
		return err
	}
	begin, err := newTurn(c.ifindex)
	if err != nil {
		return err
	}
	defer begin.end()
	begin.wait()
	if err := c.makeQdisc(); err != nil {
		return err
	}
	if err := c.removeLeftovers(); err != nil {
		return err
	}
	if err := c.claimHandle(); err != nil {
		return err
	}
	others, err := c.filters(c.at)
	if err != nil {
		return err
	}
	c.priority, c.before = choosePriority(others)
	if err := c.netlink.FilterAdd(c.filter(c.stub.FD())); err != nil {
		return explainRefusal("add a BPF filter", err)
	}
	return nil
}

// makeQdisc makes the qdisc if there is none.
func (c *clsactFilter) makeQdisc() error {
	there, err := hasClsact(c.netlink, c.ifindex)
	if err != nil || there {
		return err
	}
	err = c.netlink.QdiscAdd(c.qdisc())
	if errors.Is(err, unix.EEXIST) { // another process made it first
		return nil
	}
	if err != nil {
		return explainRefusal("make the qdisc clsact", err)
	}
	c.owner = true
	return nil
}

// hasClsact reports whether an interface has the qdisc. It is an error if another qdisc is in its
// place.
func hasClsact(h *netlink.Handle, ifindex int) (bool, error) {
	there, err := h.QdiscList(device(ifindex))
	if err != nil {
		return false, fmt.Errorf("list its qdiscs: %w", err)
	}
	for _, q := range there {
		switch {
		case q.Attrs().Parent != netlink.HANDLE_CLSACT:
		case q.Type() == "clsact":
			return true, nil
		default:
			return false, fmt.Errorf("the qdisc %s is in the place of clsact, which can do the same: "+
				"replace it by clsact, and move its filters there", q.Type())
		}
	}
	return false, nil
}

// removeLeftovers removes the filters of killed captures. It sets owner if a filter's name shows
// that an xdpcap has made the qdisc.
func (c *clsactFilter) removeLeftovers() error {
	for side := range Direction(len(directions)) {
		there, err := c.filters(side)
		if err != nil {
			return err
		}
		for _, f := range there {
			ours, ok := f.(*netlink.BpfFilter)
			if !ok || !isOurs(ours) {
				continue
			}
			c.owner = c.owner || ours.Name == filterNameOwner
			claim, err := claimHandle(c.ifindex, side, ours.Handle)
			if err != nil {
				return err
			}
			if claim == nil { // its capture is running
				continue
			}
			err = c.netlink.FilterDel(ours)
			claim.release()
			if err != nil {
				return explainRefusal("remove the filter of a capture that was killed", err)
			}
		}
	}
	return nil
}

// claimHandle takes the first free handle, or a random one.
func (c *clsactFilter) claimHandle() (err error) {
	for c.handle = firstHandle; c.handle <= lastHandle; c.handle++ {
		if c.claim, err = claimHandle(c.ifindex, c.at, c.handle); err != nil || c.claim != nil {
			return err
		}
	}
	for range 100 {
		c.handle = randomHandle | rand.Uint32()&randomMask
		if c.claim, err = claimHandle(c.ifindex, c.at, c.handle); err != nil || c.claim != nil {
			return err
		}
	}
	return errors.New("all filter handles that were tried are in use: stop another capture")
}

func isOurs(f *netlink.BpfFilter) bool {
	return (f.Name == filterName || f.Name == filterNameOwner) &&
		(f.Handle >= firstHandle && f.Handle <= lastHandle || f.Handle&^randomMask == randomHandle)
}

// choosePriority returns the smallest priority whose filters are all BPF filters for all protocols,
// and the number of filters with smaller priorities. Among filters of one priority, the kernel runs
// the latest one first.
func choosePriority(others []netlink.Filter) (priority uint16, before int) {
	for priority = 1; priority < math.MaxUint16; priority++ {
		if !slices.ContainsFunc(others, func(f netlink.Filter) bool {
			return f.Attrs().Priority == priority && (f.Type() != "bpf" || f.Attrs().Protocol != unix.ETH_P_ALL)
		}) {
			break
		}
	}
	for _, f := range others {
		if f.Attrs().Priority < priority {
			before++
		}
	}
	return priority, before
}

func (c *clsactFilter) behind() int { return c.before }

func (c *clsactFilter) check() error {
	there, err := c.filters(c.at)
	if err != nil || slices.ContainsFunc(there, c.is) {
		return nil // an error of the query does not mean that the filter is gone
	}
	return errors.New("somebody has removed the filter, or the qdisc clsact")
}

func (c *clsactFilter) replace(prog *ebpf.Program) error { return c.stub.Replace(prog) }

// detach removes the filter unless it was replaced. It also removes the qdisc if an xdpcap has made
// it and no filter is left.
func (c *clsactFilter) detach() error {
	if c.turn != nil {
		c.turn.wait()
		defer c.turn.end()
	}
	err := c.remove()
	if c.claim != nil {
		c.claim.release()
	}
	c.netlink.Close()
	return errors.Join(err, c.stub.Close())
}

func (c *clsactFilter) remove() error {
	there, err := c.filters(c.at)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(there, c.is) {
		if err := c.netlink.FilterDel(c.filter(-1)); err != nil {
			return fmt.Errorf("%w: it stays until the next capture there, or: tc filter del dev IFACE %v pref %d handle %#x bpf",
				explainRefusal("remove the filter", err), c.at, c.priority, c.handle)
		}
	}
	if !c.owner {
		return nil
	}
	for side := range Direction(len(directions)) {
		if there, err = c.filters(side); err != nil || len(there) > 0 {
			return err
		}
	}
	err = c.netlink.QdiscDel(c.qdisc())
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENODEV) { // it or the interface is gone
		return nil
	}
	if err != nil {
		return explainRefusal("remove the qdisc clsact", err)
	}
	return nil
}

// filters lists the filters on one side; the list is empty if the qdisc or the interface is gone.
func (c *clsactFilter) filters(side Direction) ([]netlink.Filter, error) {
	there, err := filtersAt(c.netlink, c.ifindex, side)
	if err != nil {
		return nil, fmt.Errorf("list the filters: %w", err)
	}
	return there, nil
}

func (c *clsactFilter) is(f netlink.Filter) bool {
	b, ok := f.(*netlink.BpfFilter)
	return ok && b.Handle == c.handle && b.Priority == c.priority && b.Id == c.id
}

func (c *clsactFilter) filter(fd int) *netlink.BpfFilter {
	name := filterName
	if c.owner {
		name = filterNameOwner
	}
	return &netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{
			LinkIndex: c.ifindex,
			Parent:    directions[c.at].parent,
			Priority:  c.priority,
			Handle:    c.handle,
			Protocol:  unix.ETH_P_ALL,
		},
		Fd: fd, Name: name, DirectAction: true,
	}
}

func (c *clsactFilter) qdisc() netlink.Qdisc {
	return &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: c.ifindex, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT}}
}

func device(ifindex int) netlink.Link {
	return &netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Index: ifindex}}
}
