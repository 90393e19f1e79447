package culprit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/xdpcap/xdpcap/internal/lost"
)

// A rule of nf_tables or iptables that can throw packets away, or the policy of a chain.
type rule struct {
	chain   string // "nft inet filter input", "iptables filter INPUT"
	place   string // in the chain: "handle 4", "rule 3", "policy"
	hook    string // of the chain, "" if it is called by others: "input", "output"
	packets uint64
	counts  bool // it has a counter, and throws away all packets that the counter has

	key  string        // identifies the rule at another time
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

// NFTFunction throws packets away for nf_tables since Linux 6.18. Before, one function does it for
// all firewalls.
const NFTFunction = "nft_do_chain"

// inwards are the hooks that packets of this host do not pass on their way out.
var inwards = []string{"ingress", "prerouting", "input", "forward"}

// maxUncounted is how many rules without a counter are named.
const maxUncounted = 3

// findRules returns the rules whose counters rose, and conntrack if it has thrown away packets. If
// these do not explain all packets, the rules without a counter remain.
func (f *Finder) findRules(l Loss, rose lost.Counters) (found []Evidence) {
	w := f.firewall
	explained := uint64(0)
	if n := rose["conntrack drop"]; n > 0 && !(l.NFTApart && l.Function == NFTFunction) {
		e := Evidence{Text: "conntrack: the table is full", Counter: "conntrack drop", Packets: n}
		if evicted := rose["conntrack early_drop"]; evicted > 0 {
			e.Text += fmt.Sprintf(" (early_drop %d)", evicted)
		}
		e.Text += ": net.netfilter.nf_conntrack_max"
		if failed := rose["conntrack insert_failed"]; failed > 0 {
			e.Text = fmt.Sprintf("conntrack: no free port for NAT (insert_failed %d): more addresses", failed)
		}
		found, explained = append(found, e), n
	}
	all, err := w.rules()
	if err != nil {
		return append(found, Evidence{Text: fmt.Sprintf("the rules are not known: %v", err)})
	}
	now := packetsOf(all)
	var uncounted []rule
	for _, r := range all {
		if l.NFTApart && strings.HasPrefix(r.chain, "nft ") != (l.Function == NFTFunction) {
			continue
		}
		if l.Egress && slices.Contains(inwards, r.hook) || !l.Egress && r.hook == "output" {
			continue
		}
		if !r.counts {
			uncounted = append(uncounted, r)
			continue
		}
		if n := lost.Rise(w.first[r.key], now[r.key]); n > 0 {
			e := r.evidence()
			e.Counter, e.Packets = "counter of the rule", n
			found, explained = append(found, e), explained+n
			now[r.key] = w.first[r.key] // count rules with the same key once
		}
	}
	if explained >= l.All || len(uncounted) == 0 {
		return found
	}
	e := uncountedRules(uncounted)
	e.Packets = l.All - explained
	return append(found, e)
}

// uncountedRules returns the evidence against rules without a counter: one of them must have
// dropped the packets that no counter explains. If there is only one rule, the evidence shows it,
// or else the chains to which counters should be added.
func uncountedRules(all []rule) Evidence {
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
	if n := len(chains); n > maxUncounted {
		chains, rest = chains[:maxUncounted], fmt.Sprintf(" and %d more", n-maxUncounted)
	}
	return Evidence{Text: fmt.Sprintf("one of %d rules without a counter: add `counter` to those of %s%s", len(all), strings.Join(chains, ", "), rest)}
}

func (r *rule) evidence() Evidence {
	e := Evidence{Rule: r.text()}
	e.Text = fmt.Sprintf("%s, %s: %s", r.chain, r.place, e.Rule)
	return e
}
