package culprit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/xdpcap/xdpcap/internal/lost"
)

// A rule of nf_tables or iptables that can drop packets, or the policy of a chain.
type rule struct {
	chain      string // "nft inet filter input", "iptables filter INPUT"
	position   string // in the chain: "handle 4", "rule 3", "policy"
	hook       string // of the chain: "input", "output"; "" = only other chains call it
	packets    uint64
	hasCounter bool // and the rule drops all packets that are counted

	key  string        // identifies the rule in a later reading
	text func() string // "udp dport 7000 drop"
}

// A ruleSource is a firewall of the kernel.
type ruleSource interface {
	rules() ([]rule, error)
	close()
}

// A firewall has all rules of the network namespace.
type firewall struct {
	sources []ruleSource
	first   map[string]uint64 // packets by the key of a rule, at Open
	refused error             // why rules cannot be read; nil = they can
}

func openFirewall() *firewall {
	w := new(firewall)
	add := func(s ruleSource, err error) {
		if s != nil {
			w.sources = append(w.sources, s)
		}
		w.refused = cmp.Or(w.refused, err)
	}
	add(openNFT())
	add(openXtables(iptables))
	add(openXtables(ip6tables))
	var all []rule
	all, w.refused = w.rules()
	w.first = packetsOf(all)
	return w
}

func (w *firewall) isReadable() bool { return len(w.sources) > 0 && w.refused == nil }

// rules reads all rules that can drop packets.
func (w *firewall) rules() (all []rule, err error) {
	if w.refused != nil {
		return nil, w.refused
	}
	for _, s := range w.sources {
		rules, err := s.rules()
		if err != nil {
			return nil, err
		}
		all = append(all, rules...)
	}
	return all, nil
}

// packetsOf returns the counters of rules by their keys. Rules with the same key have one sum.
func packetsOf(all []rule) map[string]uint64 {
	packets := make(map[string]uint64)
	for _, r := range all {
		packets[r.key] += r.packets
	}
	return packets
}

func (w *firewall) close() {
	for _, s := range w.sources {
		s.close()
	}
}

// NFTFunction is the function that drops packets for nf_tables since Linux 6.18. Before, one
// function does it for all firewalls.
const NFTFunction = "nft_do_chain"

// receiveHooks are the hooks that packets of this host do not pass on their way out.
var receiveHooks = []string{"ingress", "prerouting", "input", "forward"}

// findRules returns the rules whose counters rose, and conntrack if it has dropped packets. If
// these do not explain all packets, it adds the rules without a counter.
func (f *Finder) findRules(l Loss, rose lost.Counters) (found []Evidence) {
	isNFT := l.Function == NFTFunction
	explained := uint64(0)
	if n := rose["conntrack drop"]; n > 0 && !(l.NFTApart && isNFT) {
		found, explained = append(found, conntrackEvidence(rose)), n
	}
	all, err := f.firewall.rules()
	if err != nil {
		return append(found, Evidence{Text: fmt.Sprintf("the rules are not known: %v", err)})
	}
	first, now := f.firewall.first, packetsOf(all)
	var uncounted []rule
	for _, r := range all {
		isOtherFirewall := l.NFTApart && strings.HasPrefix(r.chain, "nft ") != isNFT
		isOtherDirection := l.Egress && slices.Contains(receiveHooks, r.hook) || !l.Egress && r.hook == "output"
		switch {
		case isOtherFirewall || isOtherDirection:
		case !r.hasCounter:
			uncounted = append(uncounted, r)
		default:
			if n := lost.Rise(first[r.key], now[r.key]); n > 0 {
				e := r.evidence()
				e.Counter, e.Packets = "counter of the rule", n
				found, explained = append(found, e), explained+n
				now[r.key] = first[r.key] // count rules with the same key once
			}
		}
	}
	if explained >= l.All || len(uncounted) == 0 {
		return found
	}
	e := uncountedEvidence(uncounted)
	e.Packets = l.All - explained
	return append(found, e)
}

// conntrackEvidence returns the evidence against conntrack: its table is full, or NAT has no port.
func conntrackEvidence(rose lost.Counters) Evidence {
	e := Evidence{Text: "conntrack: the table is full", Counter: "conntrack drop", Packets: rose["conntrack drop"]}
	if evicted := rose["conntrack early_drop"]; evicted > 0 {
		e.Text += fmt.Sprintf(" (early_drop %d)", evicted)
	}
	e.Text += ": net.netfilter.nf_conntrack_max"
	if failed := rose["conntrack insert_failed"]; failed > 0 {
		e.Text = fmt.Sprintf("conntrack: no free port for NAT (insert_failed %d): more addresses", failed)
	}
	return e
}

// uncountedEvidence returns the evidence against rules without a counter: one of them must have
// dropped the packets that no counter explains. It shows the rule if there is only one, or else the
// chains to which counters should be added.
func uncountedEvidence(all []rule) Evidence {
	const maxChains = 3 // that are named
	if len(all) == 1 {
		e := all[0].evidence()
		e.Text = "the only rule without a counter: " + e.Text
		return e
	}
	var chains []string
	for _, r := range all {
		if !slices.Contains(chains, r.chain) {
			chains = append(chains, r.chain)
		}
	}
	rest := ""
	if n := len(chains); n > maxChains {
		chains, rest = chains[:maxChains], fmt.Sprintf(" and %d more", n-maxChains)
	}
	return Evidence{Text: fmt.Sprintf("one of %d rules without a counter: add `counter` to those of %s%s", len(all), strings.Join(chains, ", "), rest)}
}

func (r *rule) evidence() Evidence {
	e := Evidence{Rule: r.text()}
	e.Text = fmt.Sprintf("%s, %s: %s", r.chain, r.position, e.Rule)
	return e
}
