package filter

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/bpf"

	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
	"github.com/xdpcap/xdpcap/filter/internal/filtertest"
	"github.com/xdpcap/xdpcap/internal/headers"
)

// differences are expressions that libpcap takes and Compile refuses, with the reason that Compile
// gives. The package documentation lists them, too. Compile takes all other expressions that
// libpcap takes, with the same meaning.
var differences = []struct{ name, expr, reason string }{
	{"ifindex", "ifindex 2", "the interface is chosen outside the filter"},
	{"netmask", "ip broadcast", "the interface's netmask is not known"},

	// libpcap refuses these, too, from 1.11 on. The tests run Debian's libpcap, which is older.
	{"IP protocol", "ip proto 256", "protocol number 256 is more than 255"},
	{"IPv6 protocol", "ip6 proto 300", "protocol number 300 is more than 255"},
	{"either protocol", "proto 256", "protocol number 256 is more than 255"},
	{"ISO protocol", "iso proto 256", "ISO protocol number 256 is more than 255"},
	{"IS-IS type", "isis proto 32", "IS-IS packet type 32 is more than 31"},
	{"EtherType", "link proto 65536", "EtherType 65536 is more than 65535"},
	{"access point", "ether proto 1500", "1500 is neither an EtherType (above 1500) nor an 802.2 access point (up to 255)"},
	{"access point of 9 bits", "ether proto 256", "256 is neither an EtherType"},
	{"byte", "byte 0 = 256", "byte value 256 is more than 255"},
	{"range by name", "portrange domain-65536", "port number is more than 65535"},
	{"range from", "portrange 65536-domain", "port number is more than 65535"},
	{"range with letters", "portrange 10-20abc", "unknown port"},
	{"DECnet area", "decnet host 64.120", "not a DECnet address"},
	{"DECnet node", "decnet host 17.1024", "not a DECnet address"},
	{"DECnet number", "decnet src 1", "not a DECnet address"},
	{"DECnet of three", "decnet host 1.2.3", "not a DECnet address"},
	{"DECnet of four", "decnet host 1.2.3.4", "not a DECnet address"},
	{"DECnet network", "decnet net 1.2.3.4", "does not carry an IPv4 address"},
	{"DECnet prefix", "decnet net 1.2.3.0/24", "does not carry an IPv4 network"},
	{"DECnet mask", "decnet net 1.2.3.0 mask 255.255.255.0", "does not carry an IPv4 network"},
}

// refusedSince reports whether Compile, like libpcap from 1.11 on, refuses an expression because a
// number is too large for its field, or because a DECnet address is invalid.
func refusedSince(err error) bool {
	for _, words := range []string{"is more than", "neither an EtherType", "DECnet"} {
		if err != nil && strings.Contains(err.Error(), words) {
			return true
		}
	}
	return false
}

// TestDifferences catches a listed difference that no longer exists, and a difference whose reason
// is missing from the error.
func TestDifferences(t *testing.T) {
	t.Parallel()
	for _, d := range differences {
		t.Run(d.name, func(t *testing.T) {
			if _, err := libpcap(t, ethernet, "-d", d.expr); err != nil {
				t.Errorf("libpcap refuses it too: %v", err)
			}
			_, err := Compile(d.expr, Options{})
			if err == nil || !strings.Contains(err.Error(), d.reason) {
				t.Errorf("Compile: %v, want %q in it", err, d.reason)
			}
		})
	}
}

// sameAsLibpcap compares Compile with libpcap on one expression, without their optimisers: both
// must refuse it, or make programs that give the same result for every packet. dlt is libpcap's
// number of the link type. It returns false if libpcap refuses the expression.
func sameAsLibpcap(tb testing.TB, expr string, l headers.Link, dlt int, pkts [][]byte) bool {
	tb.Helper()
	text, wantErr := libpcap(tb, dlt, "-Oddd", expr)
	got, gotErr := CompileRaw(expr, Options{Netmask: filtertest.AnyMask, Unoptimised: true, LinkType: headers.LinkNumbers[l]})
	constants := func(err error) bool { // libpcap knows the value of one number only, without its optimiser
		return err != nil && (strings.Contains(err.Error(), "division by zero") || strings.Contains(err.Error(), "31 bits"))
	}
	switch {
	case refusedSince(gotErr), errors.Is(gotErr, ErrInterface), constants(wantErr), constants(gotErr), wantErr != nil && gotErr != nil, libpcapIsWrong.MatchString(expr), strings.Contains(expr, "vxlan"), strings.Contains(expr, "protochain"):
		return wantErr == nil
	case wantErr != nil || gotErr != nil:
		tb.Errorf("%s for link type %d\nlibpcap: %v\nCompile: %v", expr, dlt, wantErr, gotErr)
		return wantErr == nil
	}
	want, err := ParseRaw(text)
	if err != nil {
		tb.Fatalf("ParseRaw of libpcap's program of %q: %v", expr, err)
	}
	if err := Check(got); err != nil {
		tb.Errorf("%s: %v", expr, err)
	}
	if _, known := bpf.Disassemble(got); !known { // so Compile's callers would get raw instructions
		tb.Errorf("%s: x/net/bpf does not know all instructions of\n%s", expr, Listing(got))
	}
	for _, p := range pkts {
		if w, g := Run(want, p, uint32(len(p))), Run(got, p, uint32(len(p))); w != g {
			tb.Errorf("%s for link type %d: Compile's program gives %d, libpcap's %d on %x\n%s", expr, dlt, g, w, p,
				cmp.Diff(Listing(want), Listing(got)))
			break
		}
	}
	return true
}

// The three listings print a program as tcpdump does.
func TestListings(t *testing.T) {
	t.Parallel()
	for _, expr := range filtertest.Corners {
		text, err := libpcap(t, ethernet, "-ddd", expr)
		if err != nil || strings.Contains(expr, "geneve") || strings.Contains(expr, "protochain") { // ParseRaw takes no loops
			continue
		}
		prog, err := ParseRaw(text)
		if err != nil {
			t.Fatal(err)
		}
		for option, print := range map[string]func([]bpf.RawInstruction) string{"-d": Listing, "-dd": CArray, "-ddd": Decimal} {
			want, _ := libpcap(t, ethernet, option, expr)
			if diff := cmp.Diff(want, print(prog)); diff != "" {
				t.Errorf("%s %q (-tcpdump +ours):\n%s", option, expr, diff)
			}
		}
	}
}

// TestFarJumps has programs with tests whose true exit, false exit, or both are just within and
// just beyond the 255 instructions that a classic jump reaches. It catches an offset that is cut to
// 8 bits, and an offset that does not count the jumps after the test.
func TestFarJumps(t *testing.T) {
	t.Parallel()
	pkts := [][]byte{make([]byte, 200), slices.Repeat([]byte{7}, 200), append(make([]byte, 200), 7), nil}
	for n := 122; n <= 132; n++ {
		for _, form := range []string{"MANY", "not (MANY)", "ip and (MANY)", "(len > 5 and ether[9] = 9) or (len <= 5 and (MANY))"} {
			if expr := strings.ReplaceAll(form, "MANY", manyBytes(n)); !meansSame(t, expr, filtertest.Meaning{}, pkts) {
				t.Errorf("%s with %d tests is refused", form, n)
			}
		}
	}
}

// TestOpcodes lists instructions that libpcap's compiler never emits. tcpdump cannot read a
// program, so the expected text is written down here.
func TestOpcodes(t *testing.T) {
	t.Parallel()
	got := Listing([]bpf.RawInstruction{{Op: cbpf.LdxImm, K: 0xffffffff}, {Op: cbpf.ClassALU | cbpf.OpXor | cbpf.SrcX}, {Op: cbpf.Ja, K: 1}, {Op: 0xfff}, {Op: cbpf.Neg},
		{Op: cbpf.Lsh, K: 3}, {Op: cbpf.ClassJMP | cbpf.OpJset | cbpf.SrcX, Jt: 1}, {Op: cbpf.RetA}, {Op: cbpf.LdAbs, K: 0xfffff000}})
	want := `(000) ldx      #0xffffffff
(001) xor      x
(002) ja       4
(003) unimp    0xfff
(004) neg      
(005) lsh      #3
(006) jset     x                jt 8	jf 7
(007) ret      
(008) ld       [proto]
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
