package filter

import (
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/bpf"

	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
	"github.com/xdpcap/xdpcap/filter/internal/filtertest"
)

// differences are the expressions that libpcap takes and Compile refuses, with the reason. The package documentation lists them.
// What else libpcap makes of an expression, Compile makes too.
var differences = []struct{ name, expr, reason string }{
	{"protochain", "ip protochain 6", "needs a loop"},
	{"protochain 6", `ip6 protochain \tcp`, "needs a loop"},
	{"ifindex", "ifindex 2", "the interface is chosen outside the filter"},
	{"netmask", "ip broadcast", "the interface's netmask is not known"},
}

// TestDifferences catches a difference that is listed but is none any more, and one whose reason the user is not told.
func TestDifferences(t *testing.T) {
	needTcpdump(t)
	for _, d := range differences {
		t.Run(d.name, func(t *testing.T) {
			if _, err := libpcap(t, "-d", d.expr); err != nil {
				t.Errorf("libpcap refuses it too: %v", err)
			}
			_, err := Compile(d.expr, Options{})
			if err == nil || !strings.Contains(err.Error(), d.reason) {
				t.Errorf("Compile: %v, want %q in it", err, d.reason)
			}
		})
	}
}

// sameAsLibpcap holds Compile against libpcap on one expression: both refuse it, or both programs give the same for every
// packet. It tells what libpcap did.
func sameAsLibpcap(tb testing.TB, expr string, pkts [][]byte) (accepted, identical bool) {
	tb.Helper()
	want, wantErr := libpcapProgram(tb, expr)
	got, gotErr := CompileRaw(expr, Options{Netmask: filtertest.AnyMask})
	if wantErr != nil || gotErr != nil {
		if wantErr == nil || gotErr == nil {
			tb.Errorf("%s\nlibpcap: %v\nCompile: %v", expr, wantErr, gotErr)
		}
		return wantErr == nil, false
	}
	if err := Check(got); err != nil {
		tb.Errorf("%s: %v", expr, err)
	}
	for _, p := range pkts {
		w, g := filtertest.Interpret(want, p, uint32(len(p))), filtertest.Interpret(got, p, uint32(len(p)))
		if w != g {
			tb.Errorf("%s: Compile's program gives %d, libpcap's %d on %x\n%s", expr, g, w, p,
				cmp.Diff(Listing(want), Listing(got)))
			break
		}
	}
	return true, cmp.Equal(want, got)
}

// TestLibpcap holds random expressions against libpcap, on packets of all kinds and cut at every length. It catches a wrong
// offset, a wrong qualifier inherited, a wrong precedence, and loads in another order than libpcap's.
func TestLibpcap(t *testing.T) {
	needTcpdump(t)
	pkts := filtertest.Truncations(filtertest.Packets(), 1)
	seeds := make(chan uint64)
	var mu sync.Mutex
	var accepted, identical int
	var wg sync.WaitGroup
	n := filtertest.Budget(t, 3000)
	for range 4 { // tcpdump spends its time starting
		wg.Go(func() {
			for seed := range seeds {
				expr := filtertest.NewGrammar(seed).Expression(2)
				a, i := sameAsLibpcap(t, expr, pkts)
				mu.Lock()
				if a {
					accepted++
				}
				if i {
					identical++
				}
				mu.Unlock()
			}
		})
	}
	for seed := range uint64(n) {
		seeds <- seed
	}
	close(seeds)
	wg.Wait()
	t.Logf("%d expressions on %d packets: libpcap accepts %d, %d programs are identical", n, len(pkts), accepted, identical)
	if accepted < n/2 {
		t.Errorf("libpcap accepts only %d of %d: the grammar tests too little", accepted, n)
	}
}

// TestKnown holds the expressions above against libpcap, and the three listings against tcpdump's.
func TestKnown(t *testing.T) {
	needTcpdump(t)
	pkts := filtertest.Truncations(filtertest.Packets(), 1)
	for _, expr := range filtertest.Corners {
		accepted, _ := sameAsLibpcap(t, expr, pkts)
		if !accepted {
			continue
		}
		prog, _ := libpcapProgram(t, expr)
		for format, print := range map[string]func([]bpf.RawInstruction) string{"-d": Listing, "-dd": CArray, "-ddd": Decimal} {
			want, _ := libpcap(t, format, expr)
			if diff := cmp.Diff(want, print(prog)); diff != "" {
				t.Errorf("%s %q (-tcpdump +ours):\n%s", format, expr, diff)
			}
		}
	}
}

// TestOpcodes compares the listing of every instruction with tcpdump's, which reads none; so the expected text is written down
// for those that its compiler never makes.
func TestOpcodes(t *testing.T) {
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
