package capture

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/cli/read"
)

// flagsOfPeers are the flags of three tools, by their manuals: tcpdump 5.0, dumpcap 4.0 and xdpdump
// 1.3. Not here are -h, --help and --version, which every command has.
var flagsOfPeers = map[string]string{
	"tcpdump": "-A -b -B --buffer-size -c --count -C -d -D --list-interfaces -e -E -f -F -G -H " +
		"-i --interface -I --monitor-mode --immediate-mode -j --time-stamp-type -J --list-time-stamp-types " +
		"--time-stamp-precision --micro --nano -K --dont-verify-checksums -l -L --list-data-link-types -m -M -n -N " +
		"-# --number -O --no-optimize -p --no-promiscuous-mode --print -Q --direction -q -r " +
		"-S --absolute-tcp-sequence-numbers -s --snapshot-length --skip --print-sampling --lengths -T -t -u -U --packet-buffered -v -V -w -W -x -X " +
		"-y --linktype -z -Z --relinquish-privileges",
	"dumpcap": "-i --interface --ifname --ifdescr -f -s --snapshot-length -p --no-promiscuous-mode -I --monitor-mode " +
		"-B --buffer-size -y --linktype --time-stamp-type -D --list-interfaces -L --list-data-link-types " +
		"--list-time-stamp-types -d -k -S -M -c -a --autostop -w -g -b --ring-buffer -n -P --capture-comment --temp-dir " +
		"--log-level --log-fatal --log-domains --log-debug --log-noisy --log-file -N -C -t -q -v",
	"xdpdump": "--rx-capture -D --list-interfaces --load-xdp-mode --load-xdp-program -i --interface --perf-wakeup " +
		"-p --program-names -P --promiscuous-mode -s --snapshot-length --use-pcap -w --write -x --hex -v --verbose",
}

// newCommand returns the capture of this process.
func newCommand(o *Options) *cobra.Command { return New(frame.NewProcess(os.Stdout, os.Stderr), o) }

// The capture knows every flag of tcpdump, dumpcap and xdpdump, and read every one of tcpdump.
func TestPeersFlagsAreKnown(t *testing.T) {
	t.Parallel()
	commands := map[*cobra.Command]string{
		newCommand(new(Options)): "tcpdump dumpcap xdpdump", read.New(frame.NewProcess(os.Stdout, os.Stderr)): "tcpdump",
	}
	for cmd, tools := range commands {
		for _, tool := range strings.Fields(tools) {
			for _, flag := range strings.Fields(flagsOfPeers[tool]) {
				name, long := strings.CutPrefix(flag, "--")
				if long && cmd.Flags().Lookup(name) == nil || !long && cmd.Flags().ShorthandLookup(flag[1:]) == nil {
					t.Errorf("%s: %s of %s is unknown", cmd.Name(), flag, tool)
				}
			}
		}
	}
}

// tryLine returns the error that a capture with this command line finds before it touches anything.
func tryLine(args ...string) error {
	var o Options
	cmd := newCommand(&o)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return frame.ExplainFlag(err, "xdpcap --help") })
	cmd.RunE = func(_ *cobra.Command, words []string) error {
		o.filter.Words = words
		if o.read != nil {
			_, err := readLine(read.New(o.Process), cmd.Flags(), o.read, words)
			return err
		}
		if err := o.readFilter(cmd); err != nil || o.list || o.filter.Dump > 0 {
			return err
		}
		return o.check(cmd.Flags())
	}
	cmd.SetArgs(args)
	return cmd.Execute()
}

// A flag that takes certain words takes each of them and no other, and Wireshark shows no other.
func TestEveryWord(t *testing.T) {
	t.Parallel()
	root := newCommand(new(Options))
	root.Flags().VisitAll(func(f *pflag.Flag) {
		words := frame.WordsOf(f)
		if words == nil {
			return
		}
		for _, word := range words {
			if err := tryLine("-i", "none0", "--"+f.Name, word); err != nil {
				t.Errorf("--%s %s: %v", f.Name, word, err)
			}
		}
		if err := tryLine("-i", "none0", "--"+f.Name, "none"); err == nil {
			t.Errorf("--%s none: it is taken", f.Name)
		}
		var dialog strings.Builder
		root.SetOut(&dialog)
		root.SetArgs([]string{"--extcap-interface", "xdpcap-lo", "--extcap-config", "--extcap-reload-option", f.Name})
		if err := root.Execute(); err != nil {
			t.Fatal(err)
		}
		var shown []string
		for _, m := range regexp.MustCompile(`\{value=([^}]+)\}`).FindAllStringSubmatch(dialog.String(), -1) {
			shown = append(shown, strings.Split(m[1], ",")...)
		}
		for _, word := range shown {
			if !slices.Contains(words, word) {
				t.Errorf("Wireshark shows %s for --%s, which takes %v", word, f.Name, words)
			}
		}
		if f.Name == "transport" && len(shown) != len(words) {
			t.Errorf("Wireshark shows %v for --%s, which takes %v", shown, f.Name, words)
		}
	})
}

// Every flag of the capture can be given: it works, is accepted, or is refused in one line.
func TestEveryFlag(t *testing.T) {
	t.Parallel()
	values := map[string]string{ // by flag or type
		"name": "x", "size": "1M", "uint64": "1", "time": "1s", "stringSlice": "x", "stringArray": "none0",
		"expression-file": os.DevNull, "filter-file": writeFile(t, "1\n6 0 0 65535\n"), "filter-set": "x=" + os.DevNull, "rx-capture": "exit", "verdict": "drop",
		"direction": "in", "transport": "auto", "linktype": "EN10MB", "precision": "nano",
		"format": "pcap", "ring-buffer": "interval:60", "autostop": "packets:7",
		"trigger": "aborted", "sflow-agent": "192.0.2.1",
	}
	newCommand(new(Options)).Flags().VisitAll(func(f *pflag.Flag) {
		if slices.Contains([]string{"help", "version", "netns"}, f.Name) {
			return // every command has it
		}
		args := []string{"--" + f.Name}
		if f.NoOptDefVal == "" {
			value, ok := values[f.Name]
			if !ok {
				value = cmp.Or(values[f.Value.Type()], f.DefValue)
			}
			args = append(args, value)
		}
		switch f.Name {
		case "interface", "hook", "list-interfaces", "read-file":
		case "skip":
			args = append(args, "-r", "f")
		case "ebpf":
			args = append(args, "-d")
		case "rotate-seconds":
			args = append(args, "-i", "none0", "-w", "%T")
		case "file-size", "ring-buffer", "max-bytes", "min-free", "atomic", "postrotate-command", "print-files", "ring":
			args = append(args, "-i", "none0", "-w", "out")
		case "trigger", "trigger-interval", "post":
			args = append(args, "-i", "none0", "-w", "out", "--ring", "1M")
		case "counter-interval", "sflow-agent":
			args = append(args, "-i", "none0", "-w", "sflow://127.0.0.1")
		case "tls-cert", "tls-key", "tls-ca":
			args = append(args, "-i", "none0", "--serve", "127.0.0.1:0")
		case "except":
			args = append(args, "-i", "any")
		case "fragments":
			args = append(args, "-i", "none0", "port 53")
		case "reload-filter":
			args = append(args, "-i", "none0", "-F", writeFile(t, "udp"))
		case "reason":
			args = append(args, "-i", "none0", "--drops")
		case "file-count":
			args = append(args, "-i", "none0", "-w", "out", "-C", "1")
		default:
			args = append([]string{"-i", "none0"}, args...)
		}
		err := tryLine(args...)
		instead := frame.InsteadOfPeerFlag(f)
		switch {
		case instead == "":
			if err != nil {
				t.Errorf("%q: %v", args, err)
			}
		case err == nil || err.Error() != frame.FlagName(f)+": "+instead || len(err.Error()) > frame.UsageWidth:
			t.Errorf("%q: %v, want one line with %q", args, err, instead)
		}
	})
}

// writeFile makes a file of this text.
func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Common command lines of tcpdump and others work, or print in one line what to do. A flag of
// another tool refuses all values except those that change nothing here.
func TestPeersLines(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"-i none0 -y RAW":       "-y: XDP sees Ethernet frames only: say -y EN10MB",
		"-i none0 -y":           "-y needs a value: -y linktype; see xdpcap --help",
		"-r f --json=g":         "--json=g does not work with -r, which prints packets as JSON to standard output: say --json >g",
		"-r f -s 96":            "-s: packets keep the bytes that the file has: cut them with editcap -s",
		"-r f --duration 1s":    "--duration does not work with -r: omit it; see xdpcap read --help",
		"-r f --nano=milli":     "--nano: say micro or nano",
		"-i none0 --skip 3":     "--skip is for -r: capture all packets, and omit the first ones with xdpcap read --skip",
		"-r":                    "-r needs a value: -r file; see xdpcap --help",
		"-i eth0 -F filter.txt": "filter.txt: no such file",
		"-n port 53":            "which interface? -i ",
		"-I -i wlan0":           "tcpdump -I",
	} {
		err := tryLine(strings.Fields(text)...)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q in one line", text, err, want)
		}
	}
	for _, text := range []string{
		"-i none0 -y en10mb --time-stamp-precision=nano", "-i none0 -lnf tcp",
		"-i none0 --program-names x --load-xdp-program", "-nlSKvvr f -w g tcp", "-r f -i none0", "-r f --json", "-r f -UpOKSlNu -B 4096 --nano --skip 3",
		"-i eth0", "-ni eth0", "-i eth0 -c10 -nn", "-D", "--list-interfaces",
		"-i eth0 -w file.pcap", "-i eth0 -w - -U", "-i eth0 -s0 -w file.pcap port 80",
		"-i eth0 -s 65535 -w file.pcap", "-i eth0 -s 262144 -w file.pcap", "-lni eth0 udp port 53",
		"-nnvvS -i eth0", "-nnvvvS -s 1500 -c1 -i eth0 icmp[0] == 8", "-i eth0 -q", "-p -i eth0",
		"-i eth0 host 192.0.2.1", "-i eth0 src 192.0.2.1 and dst port 80",
		"-i eth0 net 192.0.2.0/24", "-i eth0 portrange 21-23",
		"-i eth0 tcp[tcpflags] & (tcp-syn|tcp-fin) != 0 and not src and dst net 192.0.2.0/24",
		"-i eth0 tcp[13] & 2 != 0", "-i eth0 vlan 100 and port 80", "-i eth0 ether proto 0x88cc",
		"-i eth0 -B 4096 -w file.pcap", "-i eth0 -d tcp port 80", "-i eth0 -ddd ip6",
		"-i eth0 --immediate-mode", "-i eth0 -Z root -w file.pcap", "-r file.pcap",
		"-nn -r file.pcap tcp port 80", "-i eth0 -w file.pcap -z gzip",
	} {
		if err := tryLine(strings.Fields(text)...); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}
