package capture_test

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// With -j host_lowprec the clock is read once for each poll, even for a user with only the
// capabilities of a capture. If the kernel does not report when a poll ends, or has no types to
// find that, stamps are those of ticks, and a notice says so. The file says which stamps it has.
func TestLowprec(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	three := []uintptr{unix.CAP_BPF, unix.CAP_NET_ADMIN, unix.CAP_PERFMON}
	const polls = "time stamps: host_lowprec; one for all packets of a NAPI poll on a CPU, and outside polls for all of a tick of the kernel's clock, which is every "
	const ticks = "time stamps: host_lowprec; that of the last tick of the kernel's clock, which is every "
	for i, test := range []struct {
		name      string
		given     systest.Surroundings
		transport string
		comment   string
		notice    string // "" = there is none
	}{
		{"root", systest.Surroundings{}, "ring", polls, ""},
		{"a user", systest.Surroundings{Capabilities: three}, "ring", polls, ""},
		{"no BTF", systest.Surroundings{Hidden: []string{"/sys/kernel"}}, "ring", ticks,
			"xdpcap: time stamps of the type host_lowprec have the resolution of the kernel's clock tick, "},
		{"perf", systest.Surroundings{}, "perf", ticks, ""},
	} {
		if !testnet.Shared(i) {
			continue
		}
		t.Run(test.name, func(t *testing.T) {
			file := systest.DirectoryFor(t, systest.Somebody) + "/out.pcapng"
			p := systest.StartCommand(t, pair.Rx, nil, test.given.Command(t, "-i", pair.RxName, "-j", "host_lowprec",
				"--transport", test.transport, "-w", file, "-c", "6")).Listening()
			systest.SendRound(t, pair)
			status, said := p.Wait()
			if n := strings.Count(said, "host_lowprec"); status != 0 || !strings.Contains(said, test.notice) || (n == 0) != (test.notice == "") {
				t.Errorf("exit status %d: %s", status, said)
			}
			if got := systest.OutputOf(t, "capinfos", "-k", file); !strings.Contains(got, test.comment) {
				t.Errorf("the file says %s, want %s", got, test.comment)
			}
			if packets := systest.ReadTraced(t, file); len(packets) != 6 {
				t.Errorf("%d packets in the file", len(packets))
			}
		})
	}
}
