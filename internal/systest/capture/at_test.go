package capture_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A capture at tc ingress counts beside its packets, says where it is, and leaves what is at XDP to
// others. Flags about XDP are refused.
func TestAtTC(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	file := filepath.Join(t.TempDir(), "out.pcapng")
	p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "--at", "tc", "--count", "--json", "-w", file)
	const n = 30
	for i := range n {
		testnet.Send(t, pair, testnet.UDPFrame(100, uint64(i)))
	}
	testnet.WaitFor(t, "the packets", func() bool { return strings.Contains(p.Stderr(), "listening on "+pair.RxName+"@ingress, tc ingress,") })
	s := systest.Account(t, p.Interrupt())
	if len(s.Interfaces) != 1 || s.Captured != n || s.PassedBy != 0 {
		t.Fatalf("summary %+v", s)
	}
	if i := s.Interfaces[0]; i.Hook != "ingress" || i.Mode != "tcx" && !strings.HasPrefix(i.Mode, "clsact") {
		t.Errorf("interface %+v", i)
	}
	if len(s.Count) != 1 || s.Count[0].Total.Packets != n {
		t.Errorf("counted %+v", s.Count)
	}
	lines := systest.OutputOf(t, systest.XdpcapPath, "read", file)
	if got := strings.Count(lines, "\n"); got != n {
		t.Errorf("%d lines: %s", got, lines)
	}
	for args, want := range map[string]string{
		"--at tc --verdict drop":                          "--at tc and --verdict: this flag is for packets at XDP",
		"--at tc --sink --yes":                            "--at tc and --sink",
		"--at tc --ring 8M -w r.pcapng --trigger aborted": "--at tc: verdicts and run times in --sample and --trigger are those of an XDP program",
		"--at tc --latency":                               "--at tc and --latency",
		"-Q out --at tc":                                  "-Q out and --at",
		"--drops --at tc":                                 "--drops and --at",
		"--at egress":                                     `place to capture at "egress": must be xdp, tc or auto`,
		"count --at tc --program a":                       "--at tc and --program or --verdict",
	} {
		out, err := systest.Command(append(strings.Fields(args), "-i", "lo")...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v, %s, want %s", args, err, out, want)
		}
	}
}
