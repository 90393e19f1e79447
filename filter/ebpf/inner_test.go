package ebpf

import (
	"testing"

	"github.com/cilium/ebpf"

	"github.com/xdpcap/xdpcap/filter"
)

// Programs with the word inner stay far below the million instructions that the verifier processes
// at most: it sees one state where the paths through all kinds of tunnels meet. If it saw one for
// each, their number would grow with each packet inside another.
func TestInnerInstructions(t *testing.T) {
	t.Parallel()
	const most = 60_000
	for _, expr := range []string{
		"inner tcp port 443", "inner host 10.1.2.3 and not inner port 53", "inner inner ip6 host 2001:db8::1",
		"inner vxlan 5", "udp port 4789 and inner tcp port 443", "inner tcp[((tcp[12] & 0xf0) >> 2):4] = 0x7061796c",
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
			}
		}
	}
}
