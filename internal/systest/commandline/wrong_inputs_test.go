package commandline_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// What somebody types who has not read the help is refused with the command to type instead.
func TestWrongInputs(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	for i := range 12 {
		systest.AddLink(t, pair, &netlink.Bridge{LinkAttrs: systest.Attrs(fmt.Sprintf("eth%d", i))})
	}
	file := systest.TempFile(t)
	if _, err := systest.RunIn(t, pair.Rx, systest.Command("-i", "rx0", "-w", file, "--duration", "1ms")); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args []string
		want string
	}{
		// Flags, and their values.
		{[]string{"-i", "rx0", "--sampel", "10"}, "unknown flag: --sampel: did you mean --sample?"},
		{[]string{"--hlep"}, "unknown flag: --hlep: did you mean --help?"},
		{[]string{"count", "--hlep"}, "unknown flag: --hlep: did you mean --help?"},
		{[]string{"-version"}, "-version: did you mean --version?"},
		{[]string{"-interface=rx0"}, "-interface=rx0: did you mean --interface?"},
		{[]string{"-i", "rx0", "--sample", "1%"}, "--sample 1%: must be a positive whole number: N is how many packets one is kept of, so say 100"},
		{[]string{"-i", "rx0", "--sample", "1/1000"}, "so say 1000"},
		{[]string{"-i", "rx0", "--sample", "x/0"}, "--sample x/0: must be a positive whole number; see"},
		{[]string{"-i", "rx0", "--duration", "5", "minutes"}, "--duration 5 minutes: a time is one word: --duration 5m"},
		{[]string{"-i", "rx0", "--duration", "5 minutes"}, "--duration 5 minutes: must be one word: 5m"},
		{[]string{"-i", "rx0", "-b", "interval:0h", "-w", "x.pcapng"}, "-b interval:0h: must be a number of seconds above zero"},
		{[]string{"-i", "rx0", "-c", "1k"}, "-c 1k: must be a positive whole number, such as 1000"},
		{[]string{"-i", "rx0", "--verdict", "drop"}, "rx0 runs no XDP program that could be traced: omit --verdict to capture at its XDP hook, or see where a program runs: xdpcap interfaces\n"},
		{[]string{"read", "--stats", "--format", "csv", file}, "--format is for packets, and --stats prints none: for its report as JSON say --stats --json"},
		{[]string{"read", file, "--verdict", "drop"}, "--verdict drop: no packet in the files has a verdict, which captures of a traced program have"},
		{[]string{"read", file, "--verdict", "shot"}, "--verdict shot: no packet in the files has a verdict, which captures of a traced program have"},
		{[]string{"read", file, "-i", "eth7"}, "-i eth7: the interfaces in the files are rx0"},
		{[]string{"drops", "-i", "rx0", "--reason", "NO_SOCKET"}, "xdpcap drops has no flag --reason: it is one of xdpcap, xdpcap read"},
		{[]string{"drops", "-i", "rx0", "-w", "lost.pcapng"}, "unknown flag: -w"},
		{[]string{"drops", "-i", "rx0", "-w", "lost.pcapng"}, "xdpcap -i eth0 --drops -w lost.pcapng has the packets"},
		{[]string{"-i", "rx0", "--ring", "5m", "-w", "x.pcapng"}, "--ring 5m: minutes or memory? say 300s or 5M"},
		{[]string{"read", file, "--anonymize", "-w"}, "--anonymize -w: that is a flag: name the file of a key"},
		{[]string{"--pod", "web"}, "--pod web: must be NAMESPACE/NAME, such as default/web\n"},

		// Filters.
		{[]string{"-i", "rx0", "prot 53"}, "did you mean port or proto?"},
		{[]string{"-i", "rx0", "tcp andd udp"}, "did you mean and?"},
		{[]string{"-i", "rx0", "dns"}, "write port 53"},
		{[]string{"-i", "rx0", "port dns"}, "write port 53"},
		{[]string{"read", file, "ifname rx0"}, "a filter does not choose the interface, and choose the interface with -i"},

		// Commands.
		{[]string{"tops"}, `did you mean xdpcap top?`},
		{[]string{"info", "a.pcapng"}, `there is no command "info": say xdpcap read --stats a.pcapng`},
		{[]string{"dump"}, `there is no command "dump": say xdpcap -i rx0`},
		{[]string{"serve", "-i", "eth3"}, `there is no command "serve": say xdpcap -i eth3 --serve :19000`},
		{[]string{"trace"}, `there is no command "trace": say xdpcap -i rx0 --rx-capture entry,exit`},
		{[]string{"flows", "-i", "eth3"}, `there is no command "flows": say xdpcap count -i eth3 --flows 10, or xdpcap top -i eth3`},
		{[]string{"metrics"}, `there is no command "metrics": say xdpcap -i rx0 --account --listen :9432`},
		{[]string{"convert", "a.pcap"}, "say xdpcap read -w out.pcapng a.pcap"},
		{[]string{"completion", "basch"}, `completion for "basch": did you mean bash?`},
		{[]string{"completion", "tcsh"}, `completion for "tcsh": must be one of bash, fish, powershell, zsh`},
		{[]string{"stats", "-i", "rx0", "port 53"}, "with xdpcap -i rx0 --account 'port 53'"},

		// Interfaces.
		{[]string{"-i", "eth"}, `interface "eth" does not exist: did you mean eth0, eth1 or eth2?`},
		{[]string{"count", "-i", "eht7"}, `interface "eht7" does not exist: did you mean eth7?`},
		{[]string{"-i", "nosuch"}, `interface "nosuch" does not exist; there are: lo, rx0, eth0, eth1, eth2, eth3, eth4, eth5 and 6 others`},
	} {
		status, stderr := systest.Start(t, pair.Rx, nil, test.args...).Wait()
		if text := strings.ReplaceAll(stderr, "\n", " "); status != 1 || !strings.Contains(stderr, test.want) && !strings.Contains(text, test.want) {
			t.Errorf("%q: exit status %d: %s; want %s", test.args, status, stderr, test.want)
		}
	}

	// A time has a unit there, too.
	if status, stderr := systest.Start(t, pair.Rx, nil, "-i", "rx0", "-b", "interval:1h", "-w", file, "--duration", "1ms").Wait(); status != 0 {
		t.Errorf("-b interval:1h: exit status %d: %s", status, stderr)
	}
	// A variable that sets nothing is told.
	cmd := systest.Command("interfaces")
	cmd.Env = append(os.Environ(), "XDPCAP_INTERFCE=rx0", "XDPCAP_UNRELATED=1")
	if _, stderr := systest.StartCommand(t, pair.Rx, nil, cmd).Wait(); stderr != "xdpcap: XDPCAP_INTERFCE is ignored: did you mean XDPCAP_INTERFACE?\n" {
		t.Errorf("XDPCAP_INTERFCE: %s", stderr)
	}
}
