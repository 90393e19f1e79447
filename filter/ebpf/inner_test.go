package ebpf

import (
	"testing"

	"github.com/cilium/ebpf"

	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/filter/internal/filtertest"
	"github.com/xdpcap/xdpcap/internal/headers"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// Programs with the word inner decide in the kernel as in the interpreter, and stay far below the
// million instructions that the verifier processes at most: it sees one state where the paths
// through all kinds of tunnels meet. If it saw one for each, their number would grow with each
// packet inside another.
func TestInner(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	const most = 60_000
	pkts := filtertest.NewGrammar(2).Carriers(headers.Ethernet, 300)
	same := func(got, want uint32) bool { return (got == 0) == (want == 0) }
	for _, expr := range []string{
		"inner tcp port 443", "inner host 10.0.0.1 and not inner port 53", "inner inner ip6 host 2001:db8::1",
		"inner vxlan 5", "udp port 4789 and inner ip", "inner tcp[((tcp[12] & 0xf0) >> 2):4] = 0x7061796c",
	} {
		for _, aware := range []bool{false, true} {
			prog, err := filter.CompileRaw(expr, filter.Options{VLANAware: aware})
			if err != nil {
				t.Fatal(err)
			}
			for what, p := range map[string]*ebpf.Program{"in place": loadFilter(t, prog, Inline), "on a copy": loadBuffer(t, prog)} {
				info, err := p.Info()
				if err != nil {
					t.Fatal(err)
				}
				n, ok := info.VerifiedInstructions()
				t.Logf("%s, %s, VLAN-aware %t: %d instructions, %d verified", expr, what, aware, len(prog), n)
				if !ok || n > most {
					t.Errorf("%s, %s, VLAN-aware %t: %d instructions verified, more than %d", expr, what, aware, n, most)
				}
				if compareLoaded(t, expr+" "+what, p, prog, pkts, same) == 0 {
					t.Errorf("%s, VLAN-aware %t: matches none of %d packets", expr, aware, len(pkts))
				}
			}
		}
	}
}
