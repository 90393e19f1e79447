package surroundings_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A wrapped is a command line with which another program starts tcpdump.
type wrapped struct {
	by   string // the other program
	name string // its name for tcpdump
	line string // the arguments; NIC stands for the interface, and DIR for a directory of files
	last string // one more argument with spaces, or none, if it is not noFilter

	file    string // in DIR; "" = standard output
	printed bool   // lines instead of a file
	packets int    // of 4 packets, which both sides of a pair have sent
}

// noFilter stands for a command line without an additional argument.
const noFilter = "-"

// wrappedLines are the command lines in the sources of these programs.
var wrappedLines = []wrapped{
	// ksniff's filter is empty by default, and one argument.
	{by: "ksniff, copied into the pod", name: "/tmp/static-tcpdump", line: "-i NIC -U -w -", packets: 4},
	{by: "ksniff -f, copied into the pod", name: "/tmp/static-tcpdump", line: "-i NIC -U -w -", last: "udp port 53", packets: 3},
	{by: "ksniff -p, CRI-O", name: "tcpdump", line: "-i NIC -U -w -", last: "udp port 53", packets: 3},
	{by: "ksniff -p, containerd", name: "tcpdump", line: "-i NIC -U -w - udp port 53", last: noFilter, packets: 3},
	{by: "kubectl debug", name: "tcpdump", line: "-i NIC -nn -w -", last: noFilter, packets: 4},
	{by: "kubectl debug, printed", name: "tcpdump", line: "-nn -l -i NIC", last: "udp port 53", printed: true, packets: 3},
	{by: "Retina", name: "tcpdump", line: "-w DIR/capture.pcap --relinquish-privileges=root -i NIC", last: noFilter,
		file: "capture.pcap", packets: 4},
	{by: "Retina, all options", name: "tcpdump",
		line: "-w DIR/capture.pcap --relinquish-privileges=root -s 96 -p -U --immediate-mode -n -nn -e -q -S -K -vvv -xx -tttt -i NIC",
		last: "(udp) and (port 53)", file: "capture.pcap", packets: 3},
	{by: "Retina, several files", name: "tcpdump",
		line: "-w DIR/capture.pcap --relinquish-privileges=root -s 96 -AA -ttttt -i NIC -C 1 -W 5",
		last: "(udp port 53) or (icmp)", file: "capture.pcap0", packets: 4},
}

// args returns the arguments of the command line.
func (w *wrapped) args(nic, dir string) []string {
	args := strings.Fields(strings.NewReplacer("NIC", nic, "DIR", dir).Replace(w.line))
	if w.last != noFilter {
		args = append(args, w.last)
	}
	return args
}

// A startNamed starts xdpcap by a name in a namespace. files is the path of DIR for the tests.
type startNamed func(t *testing.T, ns *testnet.Namespace, stdout *os.File, name string, args ...string) (p *systest.Process, files string)

// wrappedInterface is the interface on which check expects captured packets: NIC is this interface,
// or any.
const wrappedInterface = "rx0"

// check runs the command line, and checks its captured packets after SIGTERM has ended it. nic and
// dir are NIC and DIR for the process.
func (w *wrapped) check(t *testing.T, nic, dir string, start startNamed) {
	t.Helper()
	pair := testnet.MustPair(t, testnet.PairOptions{RxName: wrappedInterface})
	stdout, err := os.Create(filepath.Join(t.TempDir(), "stdout"))
	testnet.Must(t, err)
	defer stdout.Close()
	p, files := start(t, pair.Rx, stdout, w.name, w.args(nic, dir)...)
	p.Listening()
	to := testnet.TxToRx()
	testnet.Send(t, pair, to.UDP(1053, 53, []byte("asked")), to.ICMPEcho(false, 1))
	systest.SendBack(t, pair, to.Reverse().UDP(53, 1053, []byte("answered")), to.Reverse().UDP(53, 1053, []byte("again")))
	p.Cmd.Process.Signal(syscall.SIGTERM)
	if status, said := p.Wait(); status != 0 {
		t.Fatalf("exit status %d: %s", status, said)
	}
	systest.CheckDetached(t, pair)

	file := stdout.Name()
	if w.file != "" {
		file = filepath.Join(files, w.file)
	}
	if w.printed {
		if text := systest.Contents(t, file); strings.Count(text, "\n") != w.packets {
			t.Errorf("%d packets were captured, and printed are %s", w.packets, text)
		}
		return
	}
	const nanoseconds = 0xa1b23c4d // pcap's magic number
	if text := systest.Contents(t, file); len(text) < 4 || binary.NativeEndian.Uint32([]byte(text)) != nanoseconds {
		t.Errorf("the file is no pcap: it begins with %q", text[:min(len(text), 4)])
	}
	if lines := systest.OutputOf(t, "tcpdump", "-nr", file); strings.Count(lines, "\n") != w.packets {
		t.Errorf("%d packets were captured, and tcpdump shows %s", w.packets, lines)
	}
}

// Command lines with which other programs start tcpdump work under that name.
func TestWrapped(t *testing.T) {
	t.Parallel()
	for i, w := range wrappedLines {
		if !testnet.Shared(i) {
			continue
		}
		for _, nic := range []string{wrappedInterface, "any"} {
			t.Run(w.by+", "+nic, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				w.check(t, nic, dir, func(t *testing.T, ns *testnet.Namespace, stdout *os.File, name string, args ...string) (*systest.Process, string) {
					cmd := systest.Command(args...)
					cmd.Args[0] = name
					return systest.StartCommand(t, ns, stdout, cmd), dir
				})
			})
		}
	}
}

// Before a capture, Retina checks the filter with tcpdump.
func TestWrappedFilter(t *testing.T) {
	t.Parallel()
	for filter, want := range map[string]bool{"(host 192.0.2.1) and (tcp port 80)": true, "(host 192.0.2.1": false} {
		cmd := systest.Command("-d", filter)
		cmd.Args[0] = "tcpdump"
		var said bytes.Buffer
		cmd.Stderr = &said
		if err := cmd.Run(); (err == nil) != want {
			t.Errorf("tcpdump -d %q: %v: %s", filter, err, said.String())
		}
	}
}
