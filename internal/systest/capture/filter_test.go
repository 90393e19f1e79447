package capture_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// The filter in the kernel keeps the packets that tcpdump selects from a file with all packets.
func TestFilterSelectsWhatTcpdumpDoes(t *testing.T) {
	t.Parallel()
	testnet.Require(t, "tcpdump")
	pair := testnet.MustPair(t, testnet.PairOptions{})
	frames := testnet.MixedTraffic()
	all := systest.TempFile(t)
	captureFrames(t, pair, frames, "-w", all)
	for i, expr := range []string{
		"ip", "ip6", "arp", "tcp", "udp", "icmp", "icmp6", "vlan",
		"tcp port 80", "udp port 53", "port 53 or arp", "not tcp", "host 192.0.2.1 and not tcp",
		"src host 192.0.2.2", "net 192.0.2.0/24", "ip6 host 2001:db8::1",
		"tcp[tcpflags] & (tcp-syn|tcp-fin) != 0", "greater 90", "ether broadcast",
		"vlan and icmp", "icmp[icmptype] == icmp-echo or icmp6[icmp6type] == icmp6-echo",
	} {
		if testnet.Emulated() && i%3 != 0 || !testnet.Shared(i/3) {
			continue // a second each there; package filter/ebpf tests more on other kernels' verifiers
		}
		t.Run(expr, func(t *testing.T) {
			t.Parallel()
			pair := testnet.MustPair(t, testnet.PairOptions{})
			file, selected := systest.TempFile(t), filepath.Join(t.TempDir(), "selected.pcap")
			s := captureFrames(t, pair, frames, append([]string{"-w", file}, strings.Fields(expr)...)...)
			systest.OutputOf(t, "tcpdump", "-nr", all, "-w", selected, expr)
			got, r := systest.ReadFile(t, file)
			want := datas(readPcap(t, selected))
			if diff := cmp.Diff(want, datas(got)); diff != "" || len(want) == 0 {
				t.Errorf("%d packets, tcpdump selects %d:\n%s", len(got), len(want), diff)
			}
			if s.FilteredOut != uint64(len(frames)-len(want)) || s.Seen != uint64(len(frames)) {
				t.Errorf("summary %+v", s)
			}
			if ifi, err := r.Interface(0); err != nil || ifi.Filter != expr {
				t.Errorf("if_filter is %q, %v", ifi.Filter, err)
			}
		})
	}
}

// captureFrames runs xdpcap while these frames are sent.
func captureFrames(t *testing.T, pair *testnet.Pair, frames [][]byte, args ...string) systest.Summary {
	t.Helper()
	p := systest.Listening(t, pair.Rx, nil, append([]string{"-i", pair.RxName, "--json"}, args...)...)
	testnet.Send(t, pair, frames...)
	return systest.Account(t, p.Interrupt())
}

func datas(records []systest.Record) (data [][]byte) {
	for _, r := range records {
		data = append(data, r.Data)
	}
	return data
}

func readPcap(t *testing.T, path string) []systest.Record {
	t.Helper()
	f, err := os.Open(path)
	testnet.Must(t, err)
	defer f.Close()
	r, err := pcapgo.NewReader(f)
	testnet.Must(t, err)
	return recordsOf(r)
}

// --vlan-aware matches after the tag, like tcpdump on a socket.
func TestVLANAware(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	udp := testnet.TxToRx().UDP(1000, 53, nil)
	frames := [][]byte{udp, testnet.VLAN(udp, 5), testnet.QinQ(udp, 6, 7), testnet.TxToRx().ARPRequest()}
	for args, want := range map[string]uint64{"udp port 53": 1, "--vlan-aware udp port 53": 3} {
		if s := captureFrames(t, pair, frames, append(strings.Fields(args), "-w", os.DevNull)...); s.Captured != want || s.FilteredOut != 4-want {
			t.Errorf("%s: summary %+v", args, s)
		}
	}
}

// -F reads an expression from a file, and --filter-file a compiled program.
func TestFilterFiles(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	dir := t.TempDir()
	expression, program := filepath.Join(dir, "expression"), filepath.Join(dir, "program")
	os.WriteFile(expression, []byte("# names\nudp # and not TCP\nport 53\n#"), 0o600)
	os.WriteFile(program, []byte(systest.OutputOf(t, "tcpdump", "-y", "EN10MB", "-s", "262144", "-ddd", "udp port 53")), 0o600)
	frames := [][]byte{testnet.TxToRx().UDP(1000, 53, nil), testnet.TxToRx().UDP(1000, 54, nil)}
	for _, test := range []struct{ flag, from, inFile string }{
		{"-F", expression, "Filter string = udp"},
		{"--filter-file", program, "BPF filter length = "},
	} {
		file := systest.TempFile(t)
		s := captureFrames(t, pair, frames, test.flag, test.from, "-w", file)
		if s.Captured != 1 || s.FilteredOut != 1 {
			t.Errorf("%s: summary %+v", test.flag, s)
		}
		if info := systest.OutputOf(t, "capinfos", file); !strings.Contains(info, test.inFile) {
			t.Errorf("%s: capinfos does not say %q:\n%s", test.flag, test.inFile, info)
		}
	}
	want := systest.OutputOf(t, "tcpdump", "-y", "EN10MB", "-s", "262144", "-ddd", "-F", expression)
	for flag, path := range map[string]string{"-F": expression, "--filter-file": program} {
		cmd := systest.Command("-ddd", flag, "-")
		cmd.Stdin = strings.NewReader(systest.Contents(t, path))
		out, err := cmd.Output()
		if diff := cmp.Diff(want, string(out)); diff != "" || err != nil {
			t.Errorf("%s from standard input: %v\n%s", flag, err, diff)
		}
	}
}

// -d and its variants need neither privileges nor an interface, and print the same as tcpdump.
func TestDump(t *testing.T) {
	t.Parallel()
	for _, d := range []string{"-d", "-dd", "-ddd"} {
		out, err := systest.Command(d, "tcp port 443").Output()
		want := systest.OutputOf(t, "tcpdump", "-y", "EN10MB", "-s", "262144", d, "tcp port 443")
		if diff := cmp.Diff(want, string(out)); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", d, err, diff)
		}
	}
	out, err := systest.Command("-d", "--ebpf", "tcp port 443").Output()
	if err != nil || !strings.Contains(string(out), "Exit") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestFilterErrors(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	file := systest.TempFile(t)
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"tcp", "prt", "443"}, "xdpcap: filter expression:\ntcp prt 443\n    ^^^\nsyntax error"},
		{[]string{"ip", "broadcast"}, "netmask"},
		{[]string{"ether", "host", "printer"}, "write the MAC address, or compile it elsewhere with tcpdump -ddd and pass the output with --filter-file\n"},
		{[]string{"ifindex", "2"}, "remove it, and choose the interface with -i\n"},
		{[]string{"-F", "/no/such/file"}, "-F: read the filter expression: open /no/such/file: no such file"},
		{[]string{"--filter-file", file}, "--filter-file: read the filter program: open"},
		{[]string{"-F", "/dev/zero"}, "-F: read the filter expression: /dev/zero has more than 1 MiB: choose another file\n"},
		{[]string{"--filter-file", "/dev/zero"}, "--filter-file: read the filter program: /dev/zero has more than 1 MiB"},
		{[]string{"-F", "-", "--filter-file", "-"}, "a filter is given in -F - and in --filter-file -: give only one"},
		{[]string{"gateway", "router"}, "those names are not looked up\nwrite ether host MAC and not host IP\n"},
		{[]string{"-F", os.DevNull, "ip"}, "a filter is given on the command line and in -F"},
		{[]string{"--ebpf"}, "--ebpf goes with -d"},
	} {
		status, stderr := systest.Start(t, pair.Rx, nil, append([]string{"-i", pair.RxName, "-w", file}, test.args...)...).Wait()
		if len(stderr) > 200 {
			stderr = stderr[len(stderr)-200:]
		}
		if status != 1 || !strings.Contains(stderr, test.want) {
			t.Errorf("%.60v: exit status %d: %s", test.args, status, stderr)
		}
		if _, err := os.Stat(file); err == nil {
			t.Errorf("%.60v: it left a file behind", test.args)
		}
	}
	systest.CheckDetached(t, pair)
}

// The account adds up with a filter, sampling and a rate limit at once.
func TestAccountOfEverything(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", os.DevNull, "--json", "--sample-flows", "2", "--first", "100",
		"--sample", "2", "--max-rate", "100000", "-B", "128k", "-c", "1000", "udp[14:2] & 1 == 0")
	// The small rings lose most packets while the capture waits for a CPU, so packets of other
	// flows are sent until it has ended. testnet.Generate cannot be used, because after the end no
	// program counts arriving packets.
	g, frame, sent := testnet.MustGenerator(t, pair), testnet.UDPFrame(100, 0), uint64(0)
	testnet.WaitFor(t, "1000 captured packets", func() bool {
		r, err := g.Run(t.Context(), testnet.GeneratorOptions{Frame: frame, Count: 300_000, Flows: 1000})
		testnet.Must(t, err)
		sent += r.Sent
		frame[29]++ // the source address
		select {
		case <-p.Done:
			return true
		default:
			return false
		}
	})
	status, stderr := p.Wait()
	s := systest.Account(t, stderr)
	if status != 0 || s.Captured != 1000 || s.FilteredOut == 0 || s.NotSampled == 0 || s.Seen > sent {
		t.Errorf("exit status %d, sent %d: %s", status, sent, stderr)
	}
}

// The error of an expression that is too long names the kernel's limit.
func TestFilterTooLong(t *testing.T) {
	t.Parallel()
	tests := make([]string, 2100) // of two instructions each
	for i := range tests {
		tests[i] = fmt.Sprintf("ether[%d] = 7", i)
	}
	out, err := systest.Command("-d", strings.Join(tests, " or ")).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "4096") {
		t.Errorf("%v: %.200s", err, out)
	}
}
