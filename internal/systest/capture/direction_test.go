package capture_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// startTcpdump runs tcpdump on the pair's receiving interface until the returned function is
// called, which sends one more packet and returns the packets that tcpdump has captured.
func startTcpdump(t *testing.T, pair *testnet.Pair) (end func() []systest.Record) {
	t.Helper()
	testnet.Require(t, "tcpdump")
	file := filepath.Join(t.TempDir(), "tcpdump.pcap")
	cmd := exec.Command("tcpdump", "-i", pair.RxName, "-w", file, "-s", "0", "--immediate-mode", "-U", "-Z", "root", "-B", "16384") // room for 256 packets
	stderr, err := cmd.StderrPipe()
	testnet.Must(t, err)
	testnet.Must(t, pair.Rx.Start(cmd))
	said := make([]byte, 0, 4096)
	for !bytes.Contains(said, []byte("listening on")) {
		n, err := stderr.Read(said[len(said):cap(said)])
		if said = said[:len(said)+n]; err != nil {
			t.Fatalf("tcpdump: %s, %v", said, err)
		}
	}
	return func() []systest.Record {
		// An interrupt makes tcpdump discard packets that it has not read yet. The last packet gets
		// no answer; it has one of the EtherTypes for experiments.
		last := slices.Concat(testnet.RxEndpoint.MAC, testnet.TxEndpoint.MAC, []byte{0x88, 0xb5}, make([]byte, 46))
		testnet.Send(t, pair, last)
		testnet.WaitFor(t, "tcpdump to have the last packet", func() bool {
			written, err := os.ReadFile(file)
			return err == nil && bytes.Contains(written, last)
		})
		cmd.Process.Signal(os.Interrupt)
		io.Copy(io.Discard, stderr)
		testnet.Must(t, cmd.Wait())
		return readPcap(t, file)
	}
}

// converse opens a TCP connection through the pair. The receiving side sends large packets, which
// reach the interface before they are segmented. All packets have arrived when it returns.
func converse(t *testing.T, pair *testnet.Pair) {
	t.Helper()
	address := &net.TCPAddr{IP: testnet.TxEndpoint.IPv4, Port: 9000}
	var listener *net.TCPListener
	testnet.Must(t, pair.Tx.Do(func() (err error) {
		listener, err = net.ListenTCP("tcp", address)
		return err
	}))
	defer listener.Close()
	answered := make(chan error, 1)
	go func() { answered <- answer(listener) }()
	var c *net.TCPConn
	testnet.Must(t, pair.Rx.Do(func() (err error) {
		c, err = net.DialTCP("tcp", nil, address)
		return err
	}))
	defer c.Close()
	for size := 1; size <= 1400; size += 200 {
		if _, err := c.Write(make([]byte, size)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, make([]byte, size)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Write(make([]byte, 200_000)); err != nil {
		t.Fatal(err)
	}
	testnet.Must(t, c.CloseWrite())
	if _, err := io.ReadAll(c); err != nil {
		t.Fatal(err)
	}
	testnet.Must(t, <-answered)
	testnet.WaitFor(t, "the last segment to come", func() bool {
		var table []byte
		err := pair.Tx.Do(func() (err error) {
			table, err = os.ReadFile("/proc/thread-self/net/tcp")
			return err
		})
		return err == nil && strings.Count(string(table), "\n") == 2 // a header, and the listener
	})
}

// Checksums that a card is to compute are not called incorrect: in packets that are sent, in those
// that come from the other end of a veth pair, and in those that GRO has joined.
func TestUnfinishedChecksums(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"xdp", "tc"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			pair := testnet.MustPair(t, testnet.PairOptions{Addresses: true})
			lines := systest.NewPipe(t)
			p := systest.Listening(t, pair.Rx, lines.In, "-i", pair.RxName, "-Q", "inout", "--at", at, "-vv", "--json")
			converse(t, pair)
			testnet.Must(t, pair.Tx.Do(func() error {
				c, err := net.Dial("udp", "192.0.2.2:9")
				if err != nil {
					return err
				}
				defer c.Close()
				_, err = c.Write([]byte("unfinished"))
				return err
			}))
			testnet.WaitFor(t, "the packets", func() bool {
				return strings.Contains(lines.Read(t), "[unfinished udp cksum 0x")
			})
			if s := systest.Account(t, p.Interrupt()); s.Captured != s.Seen {
				t.Errorf("%+v", s.AccountKeys)
			}
			text := lines.Read(t)
			if strings.Contains(text, "incorrect") || strings.Contains(text, "bad udp") {
				t.Error(text)
			}
			for _, way := range []string{"192.0.2.1.9000 > ", "192.0.2.2."} { // received, sent
				if !regexp.MustCompile(`(?m)^\s+` + regexp.QuoteMeta(way) + `.* \(unfinished -> 0x`).MatchString(text) {
					t.Errorf("none of %s is unfinished: %s", way, text)
				}
			}
		})
	}
}

// answer sends back the first segments that it receives, and reads the other ones.
func answer(listener *net.TCPListener) error {
	c, err := listener.AcceptTCP()
	if err != nil {
		return err
	}
	defer c.Close()
	for size := 1; size <= 1400; size += 200 {
		if _, err := io.ReadFull(c, make([]byte, size)); err != nil {
			return err
		}
		if _, err := c.Write(make([]byte, size)); err != nil {
			return err
		}
	}
	_, err = io.ReadAll(c)
	return err
}

// isSent reports whether a frame is from the receiving side of a pair.
func isSent(frame []byte) bool { return bytes.Equal(frame[6:12], testnet.RxEndpoint.MAC) }

// A conversation is captured by several xdpcap at once. One of them may be at the XDP hook.
type conversation []*directed

// A directed capture captures some directions.
type directed struct {
	args    string
	tcp     bool // with a filter for TCP
	sampled bool // with sampling
	snapLen int  // 0 = whole packets
	perFile int  // packets in each file; 0 = one file

	dir string
	p   *systest.Process
}

// A connection is captured like by tcpdump at the same interface: the same packets of both
// directions, byte for byte, in the order of their stamps, also in many files, and the account of
// each direction has exactly its packets.
func TestDirections(t *testing.T) {
	t.Parallel()
	for i, c := range []conversation{
		{
			{args: "-Q inout --transport ring"},
			{args: "-Q out --transport perf tcp and outbound", tcp: true},
			{args: "--direction OUT -s 60 -b packets:7", snapLen: 60, perFile: 7},
		},
		{{args: "-Q inout --transport perf -b packets:7", perFile: 7}},
		{{args: "-Q in --transport perf -b packets:9", perFile: 9}, {args: "-Q out --sample 3 tcp", tcp: true, sampled: true}},
		{{args: "-Q inout --at tc --transport ring"}, {args: "-Q in --at auto --transport perf tcp and inbound", tcp: true}},
		{{args: "-Q inout --transport ring --sample 4 -b packets:3 tcp", tcp: true, sampled: true, perFile: 3}},
	} {
		if testnet.Shared(i) {
			t.Run(c[0].args, c.run)
		}
	}
}

func (c conversation) run(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{Addresses: true})
	// The sending side has the other side's address in its neighbour table. Otherwise it would send
	// a request five seconds after the conversation, when tcpdump may have ended.
	testnet.MustKnow(t, pair.Tx, pair.TxIndex, testnet.RxEndpoint)
	for _, d := range c {
		d.dir = t.TempDir()
		args := append([]string{"-i", pair.RxName, "-w", filepath.Join(d.dir, "out.pcapng"), "--json"}, strings.Fields(d.args)...)
		d.p = systest.Listening(t, pair.Rx, nil, args...)
	}
	tcpdump := startTcpdump(t, pair)
	converse(t, pair)
	var sent [2][][]byte // tcpdump's packets: received, sent
	for _, r := range tcpdump() {
		sent[directionOf(r)] = append(sent[directionOf(r)], r.Data)
	}
	if !slices.ContainsFunc(sent[1], func(p []byte) bool { return len(p) > 1514 }) {
		t.Error("no packet was captured before it was cut into segments")
	}
	for _, d := range c {
		d.check(t, systest.Account(t, d.p.Interrupt()), sent)
	}
}

// check compares the capture with tcpdump's packets of each direction.
func (d *directed) check(t *testing.T, said systest.Summary, all [2][][]byte) {
	t.Helper()
	var got [2][][]byte
	files, err := filepath.Glob(filepath.Join(d.dir, "*"))
	testnet.Must(t, err)
	packets := uint64(0)
	var last time.Time
	for i, file := range files {
		records, _ := systest.ReadFile(t, file)
		for _, r := range records {
			if r.CI.Timestamp.Before(last) {
				t.Errorf("%s: packet %d is older than the one before", d.args, packets)
			}
			last = r.CI.Timestamp
			if want := len(said.Interfaces) - 1; want > 0 && r.CI.InterfaceIndex != directionOf(r) {
				t.Errorf("%s: packet %d is of interface %d", d.args, packets, r.CI.InterfaceIndex)
			}
			got[directionOf(r)] = append(got[directionOf(r)], r.Data)
			packets++
		}
		if d.perFile > 0 && len(records) != d.perFile && i < len(files)-1 {
			t.Errorf("%s: %d packets in file %d of %d", d.args, len(records), i, len(files))
		}
	}
	if packets != said.Captured || len(files) > 1 != (d.perFile > 0) {
		t.Errorf("%s: %d packets in %d files, %+v", d.args, packets, len(files), said.AccountKeys)
	}
	for _, source := range said.Interfaces {
		name, i := "received", 0
		if source.Hook == "egress" {
			name, i = "sent", 1
		}
		var want [][]byte
		for _, p := range all[i] {
			if !d.tcp || p[12] == 8 && p[13] == 0 && p[23] == unix.IPPROTO_TCP {
				want = append(want, p)
			}
		}
		a := source.AccountKeys
		if a.Seen != uint64(len(all[i])) || a.FilteredOut != a.Seen-uint64(len(want)) || a.Captured+a.NotSampled != uint64(len(want)) {
			t.Errorf("%s, %s: %+v, tcpdump has %d, and of what matches %d", d.args, name, a, len(all[i]), len(want))
		}
		if d.snapLen > 0 {
			for i, p := range want {
				want[i] = p[:min(len(p), d.snapLen)]
			}
		}
		if !d.sampled {
			compareSorted(t, d.args+", "+name, want, got[i])
			continue
		}
		if a.NotSampled == 0 || a.Captured == 0 {
			t.Errorf("%s, %s: nothing was sampled, or everything: %+v", d.args, name, a)
		}
		for _, p := range got[i] {
			if !slices.ContainsFunc(want, func(w []byte) bool { return bytes.Equal(p, w) }) {
				t.Errorf("%s, %s: tcpdump does not have\n%x", d.args, name, p)
			}
		}
	}
}

// With -v a packet that is segmented later has its segment size.
func TestSegmentSize(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{Addresses: true})
	lines := systest.NewPipe(t)
	p := systest.Listening(t, pair.Rx, lines.In, "-i", pair.RxName, "-Q", "out", "-v", "tcp")
	converse(t, pair)
	p.Interrupt()
	printed, long := lines.Read(t), 0
	packet := regexp.MustCompile(`\(id \d+(, GSO size 1448)?\) IP .*\n    .* length (\d+)(?:: .*)?\n`)
	for _, m := range packet.FindAllStringSubmatch(printed, -1) {
		n, err := strconv.Atoi(m[2]) // of TCP's data
		if err != nil || (n > 1448) != (m[1] != "") {
			t.Error(m[0])
		}
		if n > 1448 {
			long++
		}
	}
	if long == 0 {
		t.Errorf("nothing is longer than a segment: %s", printed)
	}
}

func directionOf(r systest.Record) int {
	if isSent(r.Data) {
		return 1
	}
	return 0
}

// compareSorted compares packets whose order may differ, because several CPUs sent them.
func compareSorted(t *testing.T, name string, want, got [][]byte) {
	t.Helper()
	slices.SortFunc(want, bytes.Compare)
	slices.SortFunc(got, bytes.Compare)
	if len(want) != len(got) || len(want) == 0 {
		t.Errorf("%s: %d packets, tcpdump has %d", name, len(got), len(want))
	}
	for i := range min(len(want), len(got)) {
		if !bytes.Equal(want[i], got[i]) {
			t.Fatalf("%s:\n%x, tcpdump has\n%x", name, got[i], want[i])
		}
	}
}

// A sentCapture is a capture of the packets that an interface sends.
type sentCapture struct {
	args     string
	captured int
	length   int // bytes of each packet; 0 = its own length
	p        *systest.Process
	file     string
}

// captureSent runs the captures while packets are sent.
func captureSent(t *testing.T, pair *testnet.Pair, captures []*sentCapture, send func()) {
	t.Helper()
	for i, c := range captures {
		if testnet.Shared(i) {
			c.file = systest.TempFile(t)
			c.p = systest.Listening(t, pair.Rx, nil, append([]string{"-i", pair.RxName, "-w", c.file, "--json"}, strings.Fields(c.args)...)...)
		}
	}
	send()
}

// check compares the packets in the file with the sent packets, if all were captured.
func (c *sentCapture) check(t *testing.T, frames ...[]byte) {
	t.Helper()
	if c.p == nil {
		return // other kernels test it
	}
	s := systest.Account(t, c.p.Interrupt())
	if s.Seen != uint64(len(frames)) || s.Captured != uint64(c.captured) {
		t.Errorf("%s: %+v, want %d of %d", c.args, s.AccountKeys, c.captured, len(frames))
	}
	records, _ := systest.ReadFile(t, c.file)
	if len(records) != c.captured {
		t.Fatalf("%s: %d packets in the file", c.args, len(records))
	}
	if c.captured != len(frames) {
		return
	}
	size := uint64(0)
	for i, r := range records {
		want := frames[i]
		if c.length > 0 {
			want = want[:c.length]
		}
		size += uint64(len(want))
		if !bytes.Equal(r.Data, want) || r.CI.Length != len(frames[i]) {
			t.Errorf("%s: packet %d of %d bytes is\n%x, want\n%x", c.args, i, r.CI.Length, r.Data, want)
		}
	}
	if s.Bytes != size {
		t.Errorf("%s: %+v, want %d bytes", c.args, s.AccountKeys, size)
	}
}

// Frames of any kind and length are captured as they are sent, by both transports, and selected by
// filter, direction, sampling and snapshot length. They arrive unchanged.
func TestSent(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{MTU: 9000})
	back := testnet.TxToRx().Reverse()
	var frames [][]byte
	for _, size := range []int{60, 61, 64, 65, 128, 129, 256, 300, 512, 513, 1514, 9014} {
		frames = append(frames, back.UDP(1000, 53, make([]byte, size-42)))
	}
	plain := len(frames)
	frames = append(frames,
		back.UDPv6(1000, 53, []byte("payload")), back.ARPRequest(), testnet.VLAN(back.UDP(1000, 53, nil), 5),
		testnet.QinQ(back.UDPv6(1000, 53, nil), 6, 7), back.TCP(testnet.Segment{SrcPort: 1000, DstPort: 80}))
	n := len(frames)
	captures := []*sentCapture{
		{args: "-Q out --transport perf", captured: n},
		{args: "-Q out --transport ring", captured: n},
		{args: "-Q inout -s 33 --transport ring", captured: n, length: 33},
		{args: "-Q out -s 33", captured: n, length: 33},
		{args: "-Q out udp port 53", captured: plain + 1},
		{args: "-Q out vlan 5", captured: 1},
		{args: "-Q out --vlan-aware udp port 53 and greater 100", captured: plain - 4},
		{args: "-Q out --first 1 ip", captured: 2},
		{args: "-Q out --first 1 --transport ring ip6 or vlan", captured: 2},
	}
	before := systest.SentBy(t, pair)
	captureSent(t, pair, captures, func() { systest.SendBack(t, pair, frames...) })
	testnet.WaitFor(t, "the frames to be sent", func() bool { return systest.SentBy(t, pair)-before == uint64(n) })
	for _, c := range captures {
		c.check(t, frames...)
	}
}

// A VLAN tag in the packet's metadata is inserted at its position on the wire, in the file and for
// the filter.
func TestSentTag(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	captures := []*sentCapture{
		{args: "-Q out --transport perf", captured: 1},
		{args: "-Q out --transport ring", captured: 1},
		{args: "-Q out -s 14", captured: 1, length: 14},
		{args: "-Q out -s 12", captured: 1, length: 12},
		{args: "-Q out vlan 5 and udp dst port 53 and len == 68", captured: 1},
		{args: "-Q out ether[12:2] == 0x8100 and ether[14:2] == 5", captured: 1},
		{args: "-Q out --vlan-aware udp dst port 53", captured: 1},
		{args: "-Q out udp dst port 53"},
		{args: "-Q out vlan 6"},
	}
	frame := testnet.TxToRx().Reverse().UDP(1000, 53, make([]byte, 22))
	captureSent(t, pair, captures, func() { systest.SendOn(t, pair, systest.TagSent(t, pair, 5), frame) })
	for _, c := range captures {
		c.check(t, testnet.VLAN(frame, 5))
	}
}

// If the filter can match in only one direction, the other has an account, and no packet in the
// file. Sent packets have an interface of their own in the file, and are outbound.
func TestDirectionFilter(t *testing.T) {
	t.Parallel()
	for i, test := range []struct {
		filter        string
		received, out uint64
		inFile        []string // interface and direction of each packet
	}{
		{"outbound", 0, 2, []string{"1", "0x00000002", "1", "0x00000002"}},
		{"inbound", 1, 0, []string{"0", "0x00000001"}},
		{"inbound or udp", 1, 1, []string{"0", "0x00000001", "1", "0x00000002"}},
		{"udp", 1, 1, []string{"0", "0x00000001", "1", "0x00000002"}},
	} {
		if !testnet.Shared(i) {
			continue
		}
		t.Run(test.filter, func(t *testing.T) {
			t.Parallel()
			pair := testnet.MustPair(t, testnet.PairOptions{})
			file := systest.TempFile(t)
			p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-Q", "inout", "-w", file, "--json", test.filter)
			testnet.Send(t, pair, testnet.UDPFrame(64, 0))
			back := testnet.TxToRx().Reverse()
			systest.SendBack(t, pair, back.UDP(1000, 53, nil), back.ARPRequest())
			s := systest.Account(t, p.Interrupt())
			in, out := s.Interfaces[0], s.Interfaces[1]
			if in.Seen != 1 || out.Seen != 2 || in.Captured != test.received || out.Captured != test.out || in.Hook != "xdp" || out.Hook != "egress" {
				t.Errorf("%+v", s.Interfaces)
			}
			if testnet.Emulated() {
				return // reading the file does not depend on the kernel
			}
			_, reader := systest.ReadFile(t, file)
			if ifi, err := reader.Interface(1); err != nil || ifi.Name != "rx0@egress" || ifi.Description != "egress" {
				t.Errorf("interface %+v, %v", ifi, err)
			}
			read := systest.OutputOf(t, "tshark", "-n", "-r", file, "-T", "fields", "-e", "frame.interface_id", "-e", "frame.packet_flags_direction")
			if diff := cmp.Diff(test.inFile, strings.Fields(read)); diff != "" {
				t.Errorf("interfaces and directions: %s", diff)
			}
		})
	}
}

// If an XDP program runs, it is traced for received packets, beside the capture at egress. Flags
// that select by verdict do not apply to sent packets, which have no verdict.
func TestDirectionsBesideProgram(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	testnet.MustTarget(t, pair, testnet.Rewriting)
	p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-Q", "inout", "--rx-capture", "entry,exit", "--verdict", "pass",
		"-w", os.DevNull, "--json")
	testnet.Send(t, pair, testnet.UDPFrame(64, 0))
	systest.SendBack(t, pair, testnet.TxToRx().Reverse().UDP(1000, 53, nil))
	s := systest.Account(t, p.Interrupt())
	var hooks []string
	for _, source := range s.Interfaces {
		hooks = append(hooks, source.Hook)
		if source.Seen != 1 {
			t.Errorf("%s: %+v", source.Hook, source.AccountKeys)
		}
	}
	if want := []string{"entry", "exit", "egress"}; !slices.Equal(hooks, want) || s.Interfaces[2].Captured != 1 {
		t.Errorf("hooks %q, want %q: %+v", hooks, want, s.Interfaces)
	}
}

// inbound and outbound match the directions that a file records and that a trigger gets.
func TestDirectionOfFiles(t *testing.T) {
	t.Parallel()
	file := systest.WriteSample(t, capture.Source{Name: "eth0"}, capture.Source{Name: "eth0", Hook: capture.Egress})
	out := len(file.Packets) / 2
	for expr, want := range map[string]int{
		"": len(file.Packets), "outbound": out, "inbound": len(file.Packets) - out, "inbound or outbound": len(file.Packets),
	} {
		lines := systest.MustRead(t, "-n", file.Path, "--", expr)
		if got := strings.Count(lines, "\n"); got != want {
			t.Errorf("%q: %d packets, want %d", expr, got, want)
		}
		if egress := strings.Count(lines, " eth0@egress "); expr == "outbound" && egress != want {
			t.Errorf("%d of %d lines say eth0@egress:\n%s", egress, want, lines)
		}
	}
}

// A killed capture leaves no program at egress if the kernel has tcx. Otherwise it leaves a filter
// that the next capture removes.
func TestKilledAtEgress(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	killed := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-Q", "inout", "-w", os.DevNull)
	before := systest.EgressOf(t, pair)
	if len(before) != 1 {
		t.Fatalf("while it runs: %v", before)
	}
	killed.Cmd.Process.Kill()
	<-killed.Done
	if strings.HasPrefix(before[0], "tcx") {
		// The kernel releases the process's programs only after its parent was notified of its end.
		testnet.WaitFor(t, "the program to go", func() bool { return len(systest.EgressOf(t, pair)) == 0 })
	}
	p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-Q", "out", "-w", os.DevNull, "--json")
	systest.SendBack(t, pair, testnet.TxToRx().Reverse().ARPRequest())
	s := systest.Account(t, p.Interrupt())
	if kind, _, _ := strings.Cut(before[0], " "); s.Captured != 1 || s.Interfaces[0].Mode != kind {
		t.Errorf("the next capture, by %s: %+v", kind, s.Interfaces)
	}
	if after := systest.EgressOf(t, pair); len(after) != 0 {
		t.Errorf("after the end: %v", after)
	}
}

// detachEgress detaches the capture's program, which is the only one there, as another process
// might.
func detachEgress(t *testing.T, pair *testnet.Pair) {
	t.Helper()
	testnet.Must(t, pair.Rx.Do(func() error {
		// Interfaces in other namespaces may have the same index.
		attached, err := link.QueryPrograms(link.QueryOptions{Target: pair.RxIndex, Attach: ebpf.AttachTCXEgress})
		if err != nil || len(attached.Programs) == 0 { // before Linux 6.6
			return netlink.QdiscDel(&netlink.GenericQdisc{
				QdiscAttrs: netlink.QdiscAttrs{LinkIndex: pair.RxIndex, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT},
				QdiscType:  "clsact",
			})
		}
		id, ok := attached.Programs[0].LinkID()
		if !ok {
			return errors.New("the program is attached without a link")
		}
		l, err := link.NewFromID(id)
		if err != nil {
			return err
		}
		defer l.Close()
		return l.Detach()
	}))
}

// A capture reports it if its program at egress was detached. It goes on as long as it captures
// received packets.
func TestEgressLeaves(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-Q", "inout", "-w", os.DevNull, "--json")
	detachEgress(t, pair)
	systest.WaitStderr(t, p, "rx0 is no longer captured: ")
	testnet.Send(t, pair, testnet.UDPFrame(64, 0))
	p.Cmd.Process.Signal(os.Interrupt)
	systest.CheckBlind(t, p, "rx0 is no longer captured: ", "egress")
	if s := systest.Account(t, p.Stderr()); s.Interfaces[0].Captured != 1 {
		t.Errorf("%+v", s.Interfaces)
	}

	p = systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-Q", "out", "-w", os.DevNull)
	systest.InRx(t, pair, netlink.LinkDel)
	systest.CheckBlind(t, p, "interface rx0 was deleted")
}

// -d prints the filter for the direction. A filter that no packet can pass is refused.
func TestDirectionFlags(t *testing.T) {
	t.Parallel()
	dump := func(args string) string {
		out, _ := systest.Command(strings.Fields(args)...).CombinedOutput()
		return string(out)
	}
	for args, want := range map[string]string{
		"-d -Q out outbound and udp":          dump("-d inbound and udp"),
		"-d -Q inout udp":                     systest.OutputOf(t, "tcpdump", "-y", "EN10MB", "-s", "262144", "-d", "udp"),
		"-d -Q inout outbound":                "different filters",
		"-d -Q out inbound":                   "rejects all packets",
		"-i lo -Q out inbound":                "expression rejects all packets",
		"-i lo -Q inout inbound and outbound": "expression rejects all packets",
	} {
		if got := dump(args); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", args, got, want)
		}
	}
}

// A capture whose filter means both directions says once that only received packets are captured.
func TestHalfSeen(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	for args, want := range map[string]int{
		"udp port 53": 1, "host 192.0.2.1 or icmp": 1, "udp": 0, "dst port 53": 0, "-Q in port 53": 0, "-Q inout port 53": 0, "--drops port 53": 0,
	} {
		args := append([]string{"-i", pair.RxName, "-w", os.DevNull, "--duration", "1ms"}, strings.Fields(args)...)
		status, stderr := systest.Start(t, pair.Rx, nil, args...).Wait()
		if got := strings.Count(stderr, "only received packets are captured: add -Q inout"); status != 0 || got != want {
			t.Errorf("%q: status %d, said %d times, want %d: %s", args, status, got, want, stderr)
		}
	}
}
