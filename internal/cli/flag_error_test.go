package cli

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
)

// A wrong flag, value, command or word is refused in plain words, without the names of Go's
// functions.
func TestFlagErrors(t *testing.T) {
	t.Parallel()
	some := frame.SomeInterface() // of this machine
	noInterface := "which interface? -i " + some + ", or -i any; xdpcap interfaces lists them"
	// No interface has these names, so that a command which takes such a value attaches nothing.
	for _, test := range []struct{ args, want string }{
		{"-c -5", "-c -5: must be a positive whole number; see xdpcap --help"},
		{"-c 1.5", "-c 1.5: must be a positive whole number; see xdpcap --help"},
		{"-c 99999999999999999999", "-c 99999999999999999999: is too large a number; see xdpcap --help"},
		{"--sample -1", "--sample -1: must be a positive whole number; see xdpcap --help"},
		{"--sample 4294967296", "--sample 4294967296: is too large a number; see xdpcap --help"},
		{"--duration x", "--duration x: must be a time above zero: 10 or 10s for ten seconds, 200ms, 5m, 1h30m; see xdpcap --help"},
		{"-i none0 --duration 0", "--duration 0: must be a time above zero: 10 or 10s for ten seconds, 200ms, 5m, 1h30m; see xdpcap --help"},
		{"-B 9Z", "-B 9Z: must be a number, which may end in k, M or G; see xdpcap --help"},
		{"-B", "-B needs a value: -B KiB; see xdpcap --help"},
		{"stats --json=maybe", "--json maybe: must be true or false, or be omitted; see xdpcap stats --help"},
		{`--program a"b`, `--program a"b: must be words with commas between them; see xdpcap --help`},
		{"--write=", `-w "": must not be empty; see xdpcap --help`},
		{"--filter-file=", `--filter-file "": must not be empty; see xdpcap --help`},
		{"stats --listen=", `--listen "": must not be empty; see xdpcap stats --help`},
		{"-i none0 --duraton 1s", "unknown flag: --duraton: did you mean --duration?; see xdpcap --help"},
		{"-i none0 --retries 1", "unknown flag: --retries; see xdpcap --help"},
		{"read --form=json f", "open f: no such file or directory"},
		{"-i none0 --rin 1M --post 1s", "--rin is the beginning of several flags: --ring, --ring-buffer; see xdpcap --help"},
		{"-noe", "unknown flag: -o in -oe; see xdpcap --help"},
		{"-o x", "unknown flag: -o; see xdpcap --help"},
		{"-Y dns", "unknown flag: -Y: display filters are Wireshark's: see xdpcap help filter; see xdpcap --help"},
		{"-nY dns", "unknown flag: -Y: display filters are Wireshark's: see xdpcap help filter; see xdpcap --help"},
		{"read --since 14:05 f", "unknown flag: --since: say --from; see xdpcap read --help"},
		{"read --until=14:05 f", "unknown flag: --until: say --to; see xdpcap read --help"},
		{"-i none0 --from 14:05", "unknown flag: --from: xdpcap read --from chooses a file's packets by their time; see xdpcap --help"},
		{"-i none0 --start 14:05", "unknown flag: --start: xdpcap read --from chooses a file's packets by their time; see xdpcap --help"},
		{"latency -i none0 --histogram", "unknown flag: --histogram: it is always printed: omit it; see xdpcap latency --help"},
		{"stats -i none0 --interval 5ms", "--interval 5ms: must be at least 10ms"},
		{"count -i none0 --duration 5ms", "--duration 5ms: must be at least 10ms"},
		{"probe -i none0 -i none0", "-i none0: is one too many: it takes only one interface; see xdpcap probe --help"},
		{"monitor --record -i none0 -i none1", "--record prints the events of one interface or of all: give one -i or none"},
		{"stats eth0", `xdpcap stats takes no argument "eth0": an interface is given as -i eth0; see xdpcap stats --help`},
		{"probe eth0", `xdpcap probe takes no argument "eth0": an interface is given as -i eth0; see xdpcap probe --help`},
		{"config fast", `xdpcap config takes no argument "fast"; see xdpcap config --help`},
		{"statss -i none0", `"statss" is neither a command nor a filter: did you mean xdpcap stats?`},
		{"-i none0 latancy", `"latancy" is neither a command nor a filter: did you mean xdpcap latency?`},
		{"-i none0 cuont", `"cuont" is neither a command nor a filter: did you mean xdpcap count?`},
		{"raed", `"raed" is neither a command nor a filter: did you mean xdpcap read?`},
		{"interface", `"interface" is neither a command nor a filter: did you mean xdpcap interfaces?`},
		{"-i none0 -B 1k", fmt.Sprintf("-B: 1024 bytes for each CPU: must be %d KiB to %d MiB, such as -B 8M", capture.MinBuffer>>10, capture.MaxBuffer>>20)},
		{"count lo", `xdpcap count: "lo" is no filter: an interface is given as -i lo; see xdpcap count --help`},
		{"stats -i none0 tcp port 443", "xdpcap stats takes no filter: see how many packets match with xdpcap -i none0 --account 'tcp port 443'"},
		{"drops udp", "a filter needs a named interface: add -i " + some},
		{"drops -i any udp", "-i any cannot be filtered: name the interface, -i " + some},
		{"drops -i any -i none0", "-i any is all interfaces of this network namespace: omit the others"},
		{"drops -i none0 --check udp", "--check and a filter: the kernel's counters are of all packets: omit one of them"},
		{"version", `there is no command "version": say xdpcap --version`},
		{"merge a b", `there is no command "merge": say xdpcap read -w out.pcapng a b`},
		{"a.pcapng", "a.pcapng is a file: read it with xdpcap read a.pcapng"},
		{"--drops", "--drops: which interface? -i " + some + ", or -i any for all; xdpcap interfaces lists them"},
		{"tcp", "which interface? -i " + some + ", or -i any for all; xdpcap interfaces lists them"},
		{"stats -i a,b", "-i a,b: give each interface its own -i: -i a -i b"},
		{"-i a,b", "-i a,b: give each interface its own -i: -i a -i b"},
		{"count --flows x", "--flows x: must be a whole number; see xdpcap count --help"},
		{"stats", noInterface},
		{"-J", "-J: which interface? -i " + some + "; xdpcap interfaces lists them"},
		{"count", noInterface},
		{"latency", noInterface},
		{"stats --listen :0 --action drop", "--action drop needs a named interface: add -i " + some},
		{"count --listen :0 --program lb", "--program needs a named interface: add -i " + some},
		{"latency --listen :0 --program lb", "--program needs a named interface: add -i " + some},
		{"help statss", `there is no command "statss": did you mean xdpcap help stats?`},
		{"help nosuch", `there is no command "nosuch": see xdpcap --help`},
		{"gather a.pcapng", "a.pcapng is a file, and no host: read it with xdpcap read a.pcapng"},
		{"gather a.pcapng b.pcap.zst tcp", "a.pcapng, b.pcap.zst are files, and no hosts: read them with xdpcap read --align a.pcapng b.pcap.zst"},
		{"help json", `there is no command "json": see docs/json.md, and xdpcap --help`},
		{"man statss", `there is no command "statss": did you mean xdpcap man stats?`},
		{"moniter", `"moniter" is neither a command nor a filter: did you mean xdpcap monitor?`},
		{"lo", `"lo" is neither a command nor a filter: an interface is given as -i lo`},

		// A flag may be abbreviated if no other flag begins like that, before and after words.
		{"--interf none0 --dur=5x", "--duration 5x: must be a time above zero: 10 or 10s for ten seconds, 200ms, 5m, 1h30m; see xdpcap --help"},
		{"read --packet-c 0 none.pcap", "-c 0: must be at least 1"},
		{"--snaplen 9z", "-s 9z: must be a number, which may end in k, M or G, or headers, or headers+64; see xdpcap --help"},
		{"--interf none0 tcp --dur -- --dur", `--duration --: must be a time above zero: 10 or 10s for ten seconds, 200ms, 5m, 1h30m; see xdpcap --help`},
	} {
		process := frame.NewProcess(os.Stdout, os.Stderr)
		if _, err := execute(process, machineFiles, strings.Fields(test.args)); err == nil || err.Error() != test.want {
			t.Errorf("%s: %v, want\n%s", test.args, err, test.want)
		}
	}
}
