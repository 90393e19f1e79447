package culprit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// Messages of linux/netfilter/nf_tables.h.
const (
	nftGetChain = unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETCHAIN
	nftGetRule  = unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETRULE
	nftGetSet   = unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETSETELEM

	nfgenmsgSize = 4 // struct nfgenmsg, whose first byte is the family

	verdictDrop   = 0 // NF_DROP
	verdictAccept = 1 // NF_ACCEPT
)

// nft reads the rules of nf_tables.
type nft struct{ sockets map[int]*nl.SocketHandle }

// openNFT returns nil if the kernel has no nf_tables, or has not loaded the module: a request to a
// netlink socket would load it.
func openNFT() (ruleSource, error) {
	if !hasNFT() {
		return nil, nil
	}
	s, err := nl.Subscribe(unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, fmt.Errorf("open a socket to nf_tables: %w", err)
	}
	return &nft{map[int]*nl.SocketHandle{unix.NETLINK_NETFILTER: {Socket: s}}}, nil
}

func hasNFT() bool {
	if _, err := os.Stat("/sys/module/nf_tables"); err == nil {
		return true
	}
	kernel, err := xdp.KernelTypes().Kernel()
	if err != nil {
		return false
	}
	_, err = kernel.AnyTypeByName("nft_rule") // only if nf_tables is no module
	return err == nil
}

func (n *nft) close() { n.sockets[unix.NETLINK_NETFILTER].Close() }

// dump calls f with the attributes of each object in a list of nf_tables. selection restricts the
// list.
func (n *nft) dump(message int, family byte, f func(family byte, a attributes), selection ...*nl.RtAttr) error {
	req := nl.NewNetlinkRequest(message, unix.NLM_F_DUMP)
	req.Sockets = n.sockets
	header := [nfgenmsgSize]byte{family}
	req.AddRawData(header[:])
	for _, a := range selection {
		req.AddRawData(a.Serialize())
	}
	answers, err := req.Execute(unix.NETLINK_NETFILTER, 0)
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return fmt.Errorf("read the rules of nf_tables, which takes CAP_NET_ADMIN: %w", err)
	}
	for _, a := range answers {
		if len(a) >= nfgenmsgSize {
			f(a[0], parseAttributes(a[nfgenmsgSize:]))
		}
	}
	return nil
}

func (n *nft) rules() (all []rule, err error) {
	hooks := make(map[string]string) // by chain
	err = n.dump(nftGetChain, 0, func(family byte, a attributes) {
		chain := chainOf(family, a.text(unix.NFTA_CHAIN_TABLE), a.text(unix.NFTA_CHAIN_NAME))
		hook := a.get(unix.NFTA_CHAIN_HOOK)
		if hook == nil {
			return
		}
		hooks[chain] = nameOfHook(family, parseAttributes(hook).number(unix.NFTA_HOOK_HOOKNUM))
		if a.get(unix.NFTA_CHAIN_POLICY) == nil || a.number(unix.NFTA_CHAIN_POLICY) != verdictDrop {
			return
		}
		all = append(all, rule{
			chain: chain, position: "policy", hook: hooks[chain], key: chain, text: func() string { return "drop" },
			packets: a.nested(unix.NFTA_CHAIN_COUNTERS).number(unix.NFTA_COUNTER_PACKETS), hasCounter: a.get(unix.NFTA_CHAIN_COUNTERS) != nil,
		})
	})
	if err != nil {
		return nil, err
	}
	err = n.dump(nftGetRule, 0, func(family byte, a attributes) {
		if r, ok := n.ruleOf(family, a); ok {
			r.hook = hooks[r.chain]
			all = append(all, r)
		}
	})
	return all, err
}

// ruleOf converts a rule, without the hook of its chain. ok is false if it cannot drop packets.
func (n *nft) ruleOf(family byte, a attributes) (r rule, ok bool) {
	expressions, table := parseExpressions(a.get(unix.NFTA_RULE_EXPRESSIONS)), a.text(unix.NFTA_RULE_TABLE)
	if !canDrop(expressions) {
		return r, false
	}
	r.chain = chainOf(family, table, a.text(unix.NFTA_RULE_CHAIN))
	r.position = fmt.Sprint("handle ", a.number(unix.NFTA_RULE_HANDLE))
	r.key = r.chain + " " + r.position
	r.packets, r.hasCounter = countedBefore(expressions)
	r.text = func() string {
		elements := func(set string) [][]byte { return n.elements(family, table, set) }
		return textOfRule(expressions, a.get(unix.NFTA_RULE_USERDATA), elements)
	}
	return r, true
}

// elements returns the elements of a set; nil if they cannot be read, or are ranges.
func (n *nft) elements(family byte, table, set string) (keys [][]byte) {
	err := n.dump(nftGetSet, family, func(_ byte, a attributes) {
		for _, e := range a.nested(unix.NFTA_SET_ELEM_LIST_ELEMENTS) {
			element := parseAttributes(e.value)
			if element.number(unix.NFTA_SET_ELEM_FLAGS) != 0 { // the end of a range
				keys = append(keys, nil)
				continue
			}
			keys = append(keys, element.nested(unix.NFTA_SET_ELEM_KEY).get(unix.NFTA_DATA_VALUE))
		}
	}, nl.NewRtAttr(unix.NFTA_SET_ELEM_LIST_TABLE, nl.ZeroTerminated(table)), nl.NewRtAttr(unix.NFTA_SET_ELEM_LIST_SET, nl.ZeroTerminated(set)))
	if err != nil || slices.ContainsFunc(keys, func(k []byte) bool { return k == nil }) {
		return nil
	}
	return keys
}

// The families of nf_tables as nft names them.
var families = map[byte]string{
	unix.NFPROTO_INET: "inet", unix.NFPROTO_IPV4: "ip", unix.NFPROTO_IPV6: "ip6", unix.NFPROTO_ARP: "arp",
	unix.NFPROTO_NETDEV: "netdev", unix.NFPROTO_BRIDGE: "bridge",
}

func chainOf(family byte, table, chain string) string {
	return fmt.Sprintf("nft %s %s %s", families[family], table, chain)
}

// nameOfHook names a hook of a family; "" for one that packets pass in both directions.
func nameOfHook(family byte, number uint64) string {
	switch {
	case family == unix.NFPROTO_NETDEV:
		return []string{"ingress", "egress"}[min(number, 1)]
	case family == unix.NFPROTO_ARP || family == unix.NFPROTO_BRIDGE:
		return ""
	case number < uint64(len(hookNames)):
		return hookNames[number]
	}
	return "ingress"
}

// hookNames are the names of enum nf_inet_hooks.
var hookNames = []string{"prerouting", "input", "forward", "output", "postrouting"}

// An expression is a part of a rule of nf_tables: a test, a counter, a verdict.
type expression struct {
	name string
	attributes
}

func parseExpressions(list []byte) (all []expression) {
	for _, element := range parseAttributes(list) {
		a := parseAttributes(element.value)
		all = append(all, expression{a.text(unix.NFTA_EXPR_NAME), a.nested(unix.NFTA_EXPR_DATA)})
	}
	return all
}

// canDrop reports whether a rule can drop packets: by its verdict, a map of verdicts or a target of
// iptables.
func canDrop(all []expression) bool {
	return slices.ContainsFunc(all, func(e expression) bool {
		switch e.name {
		case "immediate":
			v, ok := e.verdict()
			return ok && v.code == verdictDrop
		case "lookup":
			return e.isVerdictMap()
		case "target":
			return isDroppingTarget(e.text(unix.NFTA_TARGET_NAME))
		}
		return e.name == "reject" || e.name == "synproxy"
	})
}

// countedBefore returns the packets of a rule's counter. hasCounter is false if a test comes after
// the counter, because then not all packets that it counts reach the verdict.
func countedBefore(all []expression) (packets uint64, hasCounter bool) {
	for _, e := range all {
		switch e.name {
		case "counter":
			packets, hasCounter = e.number(unix.NFTA_COUNTER_PACKETS), true
		case "immediate", "reject", "log", "target", "synproxy":
		default:
			hasCounter = false
		}
	}
	return packets, hasCounter
}

// A nftVerdict is the decision of a rule.
type nftVerdict struct {
	code  int32
	chain string // the target of a jump or goto
}

// verdict returns the verdict of an immediate expression, if it has one.
func (e *expression) verdict() (v nftVerdict, ok bool) {
	a := e.nested(unix.NFTA_IMMEDIATE_DATA).nested(unix.NFTA_DATA_VERDICT)
	code := a.get(unix.NFTA_VERDICT_CODE)
	if len(code) != 4 {
		return v, false
	}
	return nftVerdict{int32(binary.BigEndian.Uint32(code)), a.text(unix.NFTA_VERDICT_CHAIN)}, true
}

// isVerdictMap reports whether a lookup's result is the verdict: it goes into register 0.
func (e *expression) isVerdictMap() bool {
	return e.get(unix.NFTA_LOOKUP_DREG) != nil && e.number(unix.NFTA_LOOKUP_DREG) == 0
}
