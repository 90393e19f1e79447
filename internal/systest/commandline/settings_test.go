package commandline_test

import (
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A process reads its flags from the environment. A setting without effect on a command line was
// meant for other command lines, and is ignored. The same flag is refused when it is typed.
func TestSettingsOfProcess(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	const works = `interface "none0" does not exist`
	for _, test := range []struct {
		settings string // variables without their prefix
		name     string // the program's name
		args     string
		want     string
	}{
		{"INTERFACE=rx0 COUNT=1", "", "stats --interval 20ms", "listening on rx0"},
		{"INTERFACE=rx0 COUNT=x", "", "stats", "xdpcap: XDPCAP_COUNT: -c x: must be a positive whole number"},
		{"PACKET_COUNT=x", "", "--json", `"error":"XDPCAP_PACKET_COUNT: -c x`},
		{"EXCEPT=lo", "", "-i none0", works},
		{"EXCEPT=lo", "", "-i any --sink", "--sink and -i any: "},
		{"EXCEPT=lo", "", "-i none0 --except lo", "--except omits interfaces"},
		{"", "tcpdump", "-i none0 --drops", works},
		{"", "tcpdump", "-i none0 --drops -Q inout", "--drops and --direction: "},
		{"XDP_MODE=generic VERDICT=drop STATS=true", "", "-i none0 --drops", works},
		{"XDP_MODE=generic VERDICT=drop", "", "-i none0 -Q out", works},
		{"VERDICT=none", "", "-i none0", "--verdict: "},
		{"", "", "-i none0 -Q out --xdp-mode generic", "-Q out and --xdp-mode: "},
		{"DIRECTION=out REASON_MAP=none", "", "-i none0 --drops", works},
		{"REASON=NO_SOCKET", "", "-i none0", works},
		{"SLOWER_THAN=5us", "", "--hook /none", "hook map /none"},
		{"STATS=true", "tcpdump", "--hook /none", "hook map /none"},
		{"STATS=true PROMISCUOUS_MODE=true", "", "-i none* -w /none/x.pcap", "/none/x.pcap: no such file"},
		{"STATS=true", "", "-i none* --count", "--count and -i none*: "},
		{"SFLOW_AGENT=192.0.2.1 COUNTER_INTERVAL=10 TLS_CA=none", "", "-i none0", works},
		{"TLS_CA=none", "", "-i none0 -w tcp://127.0.0.1:9", "--tls-ca"},
		{"FIRST=3", "", "-i none0 -w sflow://127.0.0.1", works},
		{"TRIGGER=aborted POST=5s TRIGGER_INTERVAL=5", "", "-i none0 -w /dev/null", works},
		{"MIN_FREE=1 FILE_SIZE=1 FILE_COUNT=9", "", "-i none0", works},
		{"FILE_COUNT=9", "", "-i none0 -w FILE", works},
		{"FILE_SIZE=1 MIN_FREE=1", "", "-i none0 -w FILE --ring 1M", works},
		{"MIN_FREE=0", "", "-i none0 -w FILE -w FILE2", "--min-free: -w names 2 files"},
		{"INTERVAL=5 PER_CPU=true", "", "monitor -i none0 --record", works},
		{"", "", "monitor -i none0 --record --interval 5", "--record prints single events"},
		{"XDP_MODE=generic", "", "latency -i none0", works},
		{"SFLOW_AGENT=192.0.2.1 FILE_SIZE=1", "", "read none.pcapng", "none.pcapng: no such file"},
	} {
		dir := t.TempDir()
		cmd := systest.Command(strings.Fields(strings.ReplaceAll(test.args, "FILE", dir+"/file"))...)
		if test.name != "" {
			cmd.Args[0] = test.name
		}
		for _, s := range strings.Fields(test.settings) {
			cmd.Env = append(cmd.Env, "XDPCAP_"+s)
		}
		if out := systest.RunInside(t, pair.Rx, cmd); !strings.Contains(out, test.want) {
			t.Errorf("%s %s %s: %swant %q", test.settings, test.name, test.args, out, test.want)
		}
	}
}
