package culprit

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/xdpcap/xdpcap/internal/lost"
	"golang.org/x/sys/unix"
)

// policies reads the policies of IPsec.
type policies struct {
	handle  *netlink.Handle
	refused error // why they cannot be read; nil = they can
}

// openPolicies returns nil if the kernel has no IPsec, or has not loaded its module. All methods of
// a nil policies may be called.
func openPolicies() *policies {
	if !hasNetlink(unix.NETLINK_XFRM) {
		return nil
	}
	h, err := netlink.NewHandle(unix.NETLINK_XFRM)
	if err != nil {
		return nil
	}
	p := &policies{handle: h}
	_, p.refused = p.list()
	return p
}

func (p *policies) isReadable() bool { return p != nil && p.refused == nil }

func (p *policies) list() ([]netlink.XfrmPolicy, error) {
	all, err := p.handle.XfrmPolicyList(netlink.FAMILY_ALL)
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return nil, fmt.Errorf("read the policies of IPsec, which takes CAP_NET_ADMIN: %w", err)
	}
	return all, nil
}

// hasNetlink reports whether the kernel has loaded the module of a netlink protocol. Opening a
// socket to find out would load it.
func hasNetlink(protocol int) bool {
	list, _ := os.ReadFile("/proc/thread-self/net/netlink") // a line: address, protocol, port; port 0 is the kernel
	for line := range strings.Lines(string(list)) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[1] == fmt.Sprint(protocol) && fields[2] == "0" {
			return true
		}
	}
	return false
}

func (p *policies) close() {
	if p != nil {
		p.handle.Close()
	}
}

// findPolicy returns the policy that a lost packet matches. If several match, it returns the one
// with the smallest priority, as the kernel does.
func (f *Finder) findPolicy(l Loss, rose lost.Counters) []Evidence {
	if f.policies == nil {
		return nil
	}
	all, err := f.policies.list()
	if err != nil {
		return []Evidence{{Text: fmt.Sprintf("the policies are not known: %v", err)}}
	}
	var best *netlink.XfrmPolicy
	for i, p := range all {
		isDirection := p.Dir <= netlink.XFRM_DIR_FWD && (p.Dir == netlink.XFRM_DIR_OUT) == l.Egress
		if !isDirection || !contains(p.Src, l.Example.Source.AsSlice()) || !contains(p.Dst, l.Example.Destination.AsSlice()) {
			continue
		}
		if best == nil || p.Priority < best.Priority {
			best = &all[i]
		}
	}
	if best == nil {
		return nil
	}
	e := Evidence{Rule: fmt.Sprintf("%v src %v dst %v action %v", best.Dir, best.Src, best.Dst, best.Action)}
	e.Text = fmt.Sprintf("xfrm policy, index %d: %s", best.Index, e.Rule)
	if len(best.Tmpls) > 0 {
		e.Text += ", which wants them encrypted"
	}
	for _, counter := range []string{"XfrmInPolBlock", "XfrmInNoPols", "XfrmInTmplMismatch", "XfrmOutPolBlock", "XfrmFwdHdrError"} {
		if n := rose[counter]; n > e.Packets {
			e.Counter, e.Packets = counter, n
		}
	}
	return []Evidence{e}
}

func contains(n *net.IPNet, ip net.IP) bool { return n == nil || n.Contains(ip) }
