package filter

import (
	"regexp"
	"slices"
	"sync"
	"testing"

	"golang.org/x/net/bpf"

	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
	"github.com/xdpcap/xdpcap/filter/internal/filtertest"
	"github.com/xdpcap/xdpcap/internal/headers"
)

// compileFor compiles for a test with the expression's meaning.
func compileFor(expr string, m filtertest.Meaning, unoptimised bool) ([]bpf.RawInstruction, error) {
	return CompileRaw(expr, Options{Resolver: filtertest.Resolver{}, Netmask: m.Netmask, Outbound: m.Outbound, VLANAware: m.VLANAware, Fragments: m.Fragments,
		VXLANPort: m.VXLANPort, LinkType: headers.LinkNumbers[m.Link], Unoptimised: unoptimised})
}

// meansSame compares both programs of an expression with its meaning, on packets. It returns false
// if the expression is refused.
func meansSame(tb testing.TB, expr string, m filtertest.Meaning, pkts [][]byte) bool {
	tb.Helper()
	plain, err := compileFor(expr, m, true)
	if err != nil {
		return false
	}
	optimised, err := compileFor(expr, m, false)
	if err != nil { // it matches no packet, or is too long even so
		optimised = MatchesNone().Instructions
	}
	meaning := m.Parse(expr)
	for _, p := range pkts {
		want := meaning.Matches(p, uint32(len(p)))
		for name, prog := range map[string][]bpf.RawInstruction{"unoptimised": plain, "optimised": optimised} {
			if got := cbpf.Interpret(prog, p, uint32(len(p))) != 0; got != want {
				tb.Errorf("%s\n%s for link type %d: %t, want %t on %x\n%s", expr, name, m.Link, got, want, p, Listing(prog))
				return true
			}
		}
	}
	return true
}

// allCuts are packets of all kinds for each link type, cut at every length.
var allCuts = sync.OnceValue(func() (cuts [len(headers.LinkNumbers)][][]byte) {
	for l := range cuts {
		cuts[l] = filtertest.Truncations(filtertest.PacketsOf(headers.Link(l)), 1)
	}
	return cuts
})

// someCuts are one in 16 of allCuts: others for the next seed.
func someCuts(l headers.Link, seed uint64) (some [][]byte) {
	all := allCuts()[l]
	for i := seed % 16; i < uint64(len(all)); i += 16 {
		some = append(some, all[i])
	}
	return some
}

// The programs of an expression decide as its meaning does about packets of all kinds, cut at every
// length: with and without the optimiser.
func TestMeaning(t *testing.T) {
	t.Parallel()
	ethernet := filtertest.Meaning{Netmask: filtertest.AnyMask}
	for _, expr := range filtertest.Corners {
		meansSame(t, expr, ethernet, allCuts()[headers.Ethernet])
		meansSame(t, expr, filtertest.Meaning{Fragments: true}, allCuts()[headers.Ethernet])
	}
	g := filtertest.NewGrammar(1)
	for l := range allCuts() {
		for _, aware := range []bool{false, true}[:1+1/(l+1)] { // both for Ethernet
			m := filtertest.Meaning{Netmask: filtertest.AnyMask, Link: headers.Link(l), VLANAware: aware}
			carriers := g.Carriers(m.Link, 400)
			for _, expr := range filtertest.Inner {
				meansSame(t, expr, m, carriers)
			}
		}
	}
	for l, cuts := range allCuts() {
		for _, expr := range filtertest.Protocols {
			meansSame(t, expr, filtertest.Meaning{Link: headers.Link(l)}, cuts)
		}
	}
	n, accepted := filtertest.Budget(t, 3000), 0
	for seed := range uint64(n) {
		m := ethernet
		m.Netmask = []byte{255, 255, 255, byte(seed)}
		m.Outbound, m.VLANAware, m.Fragments = seed&1 == 1, seed&2 == 2, seed&4 == 4
		if seed%5 == 4 {
			m.Link = []headers.Link{headers.Cooked, headers.Cooked2, headers.Raw, headers.Loopback}[seed/5%4]
		}
		g := filtertest.NewGrammar(seed)
		expr := g.Expression(2)
		if seed%3 == 0 {
			expr = g.Contradiction(3)
		}
		pkts := someCuts(m.Link, seed)
		if seed%12 == 1 {
			m.VXLANPort = []uint16{0, 2152, 5000}[seed/12%3]
			expr, pkts = g.Inner(2), slices.Concat(g.Carriers(m.Link, 60), pkts[:len(pkts)/8])
		}
		if meansSame(t, expr, m, pkts) {
			accepted++
		}
		if seed%100_000 == 99_999 {
			t.Logf("%d cases, %d of them accepted", seed+1, accepted)
		}
	}
	if accepted < n/2 {
		t.Errorf("only %d of %d are accepted: the grammar tests too little", accepted, n)
	}
}

// libpcapIsWrong finds tests that libpcap compiles to something else than the text means, even
// without its optimiser, and negative offsets, which it supports only with its optimiser.
// docs/choosing.md lists them.
var libpcapIsWrong = regexp.MustCompile(`geneve|byte \d+ [&|]| (?:[-+*/%&|^]|<<|>>) [^=<>!]*[a-z6]\[|\[[^]]*-`)

// The meaning is libpcap's, without its optimiser.
func TestLibpcap(t *testing.T) {
	t.Parallel()
	n, accepted := filtertest.Budget(t, 3000), 0
	for seed := range uint64(n) {
		if sameAsLibpcap(t, filtertest.NewGrammar(seed).Expression(2), headers.Ethernet, ethernet, someCuts(headers.Ethernet, seed)) {
			accepted++
		}
	}
	if accepted < n/2 {
		t.Errorf("libpcap accepts only %d of %d: the grammar tests too little", accepted, n)
	}
	for _, expr := range filtertest.Corners {
		sameAsLibpcap(t, expr, headers.Ethernet, ethernet, allCuts()[headers.Ethernet])
	}
}
