package filter

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/filter/internal/filtertest"
	"github.com/xdpcap/xdpcap/internal/headers"
)

// elements are the sets of the tests: addresses and ports of filtertest.Packets.
var elements = map[string]filtertest.Elements{
	"hosts": {Prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/32"), netip.MustParsePrefix("2001:db8::1/128")}},
	"nets":  {Prefixes: []netip.Prefix{netip.MustParsePrefix("192.168.0.0/16"), netip.MustParsePrefix("1.2.3.4/32"), netip.MustParsePrefix("fe80::/10")}},
	"ports": {Ports: []uint16{53, 443}},
	"none":  {},
}

// A keySet finds keys as a map of the kernel does: a key is bytes.
type keySet struct {
	keys  []string
	masks []netip.Prefix // of networks
}

func (s *keySet) Use(SetKind) (ipv4, ipv6 bool, err error) { return true, true, nil }

func (s *keySet) Contains(key []byte) bool {
	if slices.Contains(s.keys, string(key)) {
		return true
	}
	return slices.ContainsFunc(s.masks, func(p netip.Prefix) bool {
		a, ok := netip.AddrFromSlice(key)
		return ok && p.Contains(a)
	})
}

// testSets are the elements as sets for Compile.
func testSets() map[string]Set {
	sets := make(map[string]Set)
	for name, of := range elements {
		s := new(keySet)
		for _, p := range of.Prefixes {
			if p.IsSingleIP() {
				s.keys = append(s.keys, string(p.Addr().AsSlice()))
			} else {
				s.masks = append(s.masks, p)
			}
		}
		for _, port := range of.Ports {
			s.keys = append(s.keys, string([]byte{byte(port >> 8), byte(port)}))
		}
		sets[name] = s
	}
	return sets
}

// The programs of expressions with sets decide as the meaning does, about packets of all kinds and
// link types, cut at every length: of one expression at some, and of the next at others.
func TestSetMeaning(t *testing.T) {
	t.Parallel()
	for i, expr := range []string{
		"host in @hosts", "src host in @hosts", "dst in @hosts", "src or dst host in @hosts", "src and dst host in @hosts",
		"ip host in @hosts", "arp host in @hosts", "rarp dst host in @nets", "ip6 host in @hosts", "ip6 src host in @hosts",
		"net in @nets", "src net in @nets", "ip6 net in @nets", "not net in @nets", "host in @none", "not host in @none",
		"port in @ports", "src port in @ports", "tcp dst port in @ports", "udp port in @ports", "sctp port in @ports", "not port in @ports",
		"host in @hosts or net in @nets", "host in @hosts or in @nets", "host 10.0.0.2 or in @hosts", "host in @hosts and not port in @ports",
		"port 22 or in @ports", "tcp and (host in @hosts or port in @ports)", "host in @hosts and host in @hosts and port in @ports",
		"vlan and host in @hosts", "mpls and host in @hosts", "pppoes and net in @nets", "vxlan and host in @nets",
		"ip6[10:2] = 0xdb8 and (src host in @hosts or not src host in @hosts)", // the bytes are needed, the result is not
		"inner host in @hosts", "net in @nets and inner (ip6 host in @hosts or port in @ports)", "inner not net in @nets",
		"geneve and net in @nets", "geneve and port in @ports and ip6 host in @nets", "ip[8] = 64 and dst host in @hosts",
	} {
		for l := range allCuts() {
			cuts := someCuts(headers.Link(l), uint64(i))
			m := filtertest.Meaning{Link: headers.Link(l), Sets: elements}
			for _, m.Fragments = range []bool{false, true} {
				setMeansSame(t, expr, m, cuts)
			}
		}
		m := filtertest.Meaning{VLANAware: true, Sets: elements}
		setMeansSame(t, expr, m, someCuts(headers.Ethernet, uint64(i+1)))
	}
}

func setMeansSame(t *testing.T, expr string, m filtertest.Meaning, pkts [][]byte) {
	t.Helper()
	o := Options{Sets: testSets(), Unoptimised: true, VLANAware: m.VLANAware, Fragments: m.Fragments, LinkType: headers.LinkNumbers[m.Link]}
	plain, err := Compile(expr, o)
	if err != nil {
		if m.Link == headers.Ethernet {
			t.Errorf("%s: %v", expr, err)
		}
		return
	}
	o.Unoptimised = false
	optimised, err := Compile(expr, o)
	if errors.Is(err, ErrNothing) {
		optimised = MatchesNone()
	} else if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	meaning := m.Parse(expr)
	for _, p := range pkts {
		want := meaning.Matches(p, uint32(len(p)))
		for name, prog := range map[string]*Program{"unoptimised": plain, "optimised": optimised} {
			if err := prog.Check(); err != nil {
				t.Fatalf("%s: %s: %v", expr, name, err)
			}
			if got := prog.Run(p, uint32(len(p))) != 0; got != want {
				t.Errorf("%s\n%s for link type %d: %t, want %t on %x\n%s", expr, name, m.Link, got, want, p, prog.Listing())
				return
			}
		}
	}
}

// One look-up serves all tests of the same field for the same set: a packet is judged by one
// content of the set.
func TestSetLookedUpOnce(t *testing.T) {
	t.Parallel()
	for expr, want := range map[string]int{
		"ip dst host in @hosts and (tcp or udp) and ip dst host in @hosts":                            1,
		"(ip and tcp and dst host in @hosts) or (ip and tcp and not dst host in @hosts and port 443)": 1,
		"ip src host in @hosts and ip dst host in @hosts":                                             2,
		"ip dst host in @hosts and ip dst net in @nets":                                               2,
	} {
		prog, err := Compile(expr, Options{Sets: testSets()})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(prog.Listing(), "] @"); got != want {
			t.Errorf("%s: %d look-ups, want %d\n%s", expr, got, want, prog.Listing())
		}
	}
}

// Mistakes with sets have an error with the word, and classic programs have no look-ups.
func TestSetErrors(t *testing.T) {
	t.Parallel()
	for expr, want := range map[string]string{
		"host in @host":               `unknown set (at "@host", byte 8): did you mean hosts?`,
		"host @hosts":                 `syntax error (at "@hosts", byte 5): write in before the name of a set, as in host in @hosts`,
		"in @hosts":                   `syntax error (at "in", byte 0): put a word like host, net or port before it`,
		"portrange in @ports":         `a set does not fit here (at "@ports", byte 13): write host in, net in or port in`,
		"proto in @ports":             `a set does not fit here (at "@ports", byte 9): write host in, net in or port in`,
		"tcp host in @hosts":          `the protocol before it does not carry a set of addresses (at "@hosts", byte 12)`,
		"ether host in @hosts":        `the protocol before it does not carry a set of addresses (at "@hosts", byte 14)`,
		"icmp port in @ports":         `port of a protocol without ports (at "@ports", byte 13): only tcp, udp and sctp have ports`,
		"mpls and arp host in @hosts": `after an MPLS label, only IPv4 and IPv6 can be tested for (at "@hosts", byte 21)`,
		"host in @":                   `unexpected character (at "@", byte 8)`,
		"gateway in @hosts":           `a set does not fit here (at "@hosts", byte 11): write host in, net in or port in`,
		"host in @hosts/24":           `syntax error (at "/", byte 14)`,
		"host 1.2.3.4 or 10 @hosts":   `syntax error (at "@hosts", byte 19): write in before the name of a set, as in host in @hosts`,
	} {
		_, err := Compile(expr, Options{Sets: testSets()})
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", expr, err, want)
		}
	}
	if _, err := Compile("host in @other", Options{}); !errors.Is(err, ErrNoSet) {
		t.Errorf("a set that is not given: %v", err)
	}
	if _, err := CompileRaw("host in @hosts", Options{Sets: testSets()}); !errors.Is(err, ErrNoSet) {
		t.Errorf("as classic BPF: %v", err)
	}
	prog, err := Compile("host in @hosts", Options{Sets: testSets()})
	if err != nil {
		t.Fatal(err)
	}
	if err := Check(prog.Instructions); err == nil {
		t.Error("Check takes look-ups as classic BPF")
	}
	if _, err := ParseRaw(Decimal(prog.Instructions)); err == nil {
		t.Error("ParseRaw takes look-ups as classic BPF")
	}
	if prog.Sets = nil; prog.Check() == nil {
		t.Error("a program takes look-ups in a set that it does not have")
	}
}
