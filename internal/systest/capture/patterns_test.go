package capture_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// hasProgram reports whether an XDP program is attached to an interface.
func hasProgram(t *testing.T, ns *testnet.Namespace, name string) (has bool) {
	t.Helper()
	testnet.Must(t, ns.Do(func() error {
		l, err := netlink.LinkByName(name)
		has = err == nil && l.Attrs().Xdp != nil && l.Attrs().Xdp.Attached
		return err
	}))
	return has
}

// blocksOf is blocksIn for a file.
func blocksOf(t *testing.T, path string) string {
	t.Helper()
	return blocksIn(systest.ReadBytes(t, path))
}

// blocksIn returns the names of the blocks of pcapng, with the interface of each.
func blocksIn(data []byte) string {
	var blocks []string
	names := map[uint32]string{0x0a0d0d0a: "section", 1: "interface", 5: "statistics", 6: "packet"}
	for len(data) >= 12 {
		size := int(binary.LittleEndian.Uint32(data[4:]))
		if size < 12 || size > len(data) {
			return strings.Join(append(blocks, "torn"), " ")
		}
		name := names[binary.LittleEndian.Uint32(data)]
		if name == "packet" || name == "statistics" {
			name += fmt.Sprint(binary.LittleEndian.Uint32(data[8:]))
		}
		blocks, data = append(blocks, name), data[size:]
	}
	return strings.Join(blocks, " ")
}

// -i any captures on the existing interfaces and on those that appear later. Each has its account,
// its lines and its part of the file. When an interface has gone, its packets and statistics are in
// the file at once.
func TestAny(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, at, first, late string }{
		{"by itself", "", "rx0@ingress, tc ingress", "late0@ingress"}, // both are veths
		{"at XDP", "--at=xdp", "rx0, XDP native", "XDP native"},
		{"with a flag of XDP", "--xdp-mode=generic", "rx0, XDP generic", "XDP generic"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			testAny(t, strings.Fields(test.at), test.first, test.late)
		})
	}
}

// testAny tests -i any with flags. first and late are how interfaces are captured.
func testAny(t *testing.T, flags []string, first, late string) {
	t.Helper()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	file, lines := systest.TempFile(t), filepath.Join(t.TempDir(), "lines.json")
	p := systest.Listening(t, pair.Rx, nil, append(flags, "-i", "any", "--except", "lo,docker*", "-w", file, "-w", lines, "--json", "-U", "-s", "60")...)
	if !strings.Contains(p.Stderr(), "listening on "+first+", and on interfaces that come later") {
		t.Error(p.Stderr())
	}
	if has := hasProgram(t, pair.Rx, "rx0"); has != strings.Contains(first, "XDP") {
		t.Errorf("an XDP program is attached: %v", has)
	}
	send := func(pair *testnet.Pair, packets uint64, blocks string) {
		t.Helper()
		systest.SendNumbered(t, pair, packets, 100)
		testnet.WaitFor(t, blocks, func() bool { return blocksOf(t, file) == blocks })
	}
	const before = "section interface packet0 packet0 packet0"
	send(pair, 3, before)
	other := testnet.MustPair(t, testnet.PairOptions{Rx: pair.Rx, RxName: "late0"})
	systest.WaitStderr(t, p, "late0 has come and is captured, too: "+late)
	testnet.WaitFor(t, "its description", func() bool { return blocksOf(t, file) == before+" interface" })
	const both = before + " interface packet1 packet1"
	send(other, 2, both)
	systest.InRx(t, other, netlink.LinkDel)
	testnet.WaitFor(t, "its statistics", func() bool { return blocksOf(t, file) == both+" statistics1" })
	send(pair, 1, both+" statistics1 packet0")
	s := systest.Account(t, p.Interrupt())
	if got, want := blocksOf(t, file), both+" statistics1 packet0 statistics0"; got != want {
		t.Errorf("blocks %s, want %s", got, want)
	}
	var got []string
	for _, i := range s.Interfaces {
		got = append(got, fmt.Sprintf("%s %d %d %v", i.Interface, i.Seen, i.Captured, i.Gone))
	}
	if diff := cmp.Diff([]string{"rx0 4 4 false", "late0 2 2 true"}, got); diff != "" || s.Captured != 6 || s.Seen != 6 {
		t.Errorf("%+v: %s", s.AccountKeys, diff)
	}
	text := systest.Contents(t, lines)
	if rx, late := strings.Count(string(text), `"interface":"rx0"`), strings.Count(string(text), `"interface":"late0"`); rx != 4 || late != 2 {
		t.Errorf("%d and %d lines:\n%s", rx, late, text)
	}
	if packets, _ := systest.ReadFile(t, file); len(packets) != 6 {
		t.Errorf("%d packets", len(packets))
	}
	if out := systest.OutputOf(t, "tshark", "-r", file, "-T", "fields", "-e", "frame.interface_name"); strings.Join(strings.Fields(strings.ReplaceAll(out, "@ingress", "")), " ") != "rx0 rx0 rx0 late0 late0 rx0" {
		t.Errorf("tshark reads %s", out)
	}
	if still := systest.Attached(t, pair); still != "" {
		t.Errorf("%s is still attached", still)
	}
}

// If many interfaces come and go, no packet that the kernel has passed on is lost, no program stays
// attached, and the capture's memory does not grow with them.
func TestManyInterfaces(t *testing.T) {
	t.Parallel()
	const batches, pairs, packets = 10, 12, 3
	pair := testnet.MustPair(t, testnet.PairOptions{})
	p := systest.Listening(t, pair.Rx, nil, "-i", "in*", "--at", "xdp", "-w", "/dev/null", "--json")
	resident := func() int {
		status := systest.Contents(t, fmt.Sprintf("/proc/%d/status", p.Cmd.Process.Pid))
		kb, _ := strconv.Atoi(regexp.MustCompile(`VmRSS:\s+(\d+)`).FindStringSubmatch(status)[1])
		return kb
	}
	var early int
	for batch := range batches {
		made := make([]*testnet.Pair, pairs)
		for i := range made {
			name := fmt.Sprintf("%d-%d", batch, i)
			made[i] = testnet.MustPair(t, testnet.PairOptions{Tx: pair.Tx, Rx: pair.Rx, TxName: "out" + name, RxName: "in" + name})
		}
		for i, m := range made {
			testnet.WaitFor(t, m.RxName+" to be captured", func() bool { return hasProgram(t, pair.Rx, m.RxName) })
			for n := range uint64(packets) {
				testnet.Send(t, made[i], testnet.UDPFrame(100, n))
			}
		}
		for _, m := range made {
			systest.InRx(t, m, netlink.LinkDel)
		}
		if batch == batches/5 {
			early = resident()
		}
	}
	late := resident()
	s := systest.Account(t, p.Interrupt())
	if s.Captured != s.Seen || s.Seen > batches*pairs*packets || len(s.Interfaces) != batches*pairs {
		t.Errorf("%d interfaces, %+v", len(s.Interfaces), s.AccountKeys)
	}
	if late > early+16<<10 {
		t.Errorf("%d KiB after %d interfaces, %d after %d", early, batches/5*pairs, late, batches*pairs)
	}
	for _, i := range s.Interfaces {
		if i.Unexplained != 0 || i.Seen != i.Captured {
			t.Errorf("%s: %+v", i.Interface, i.AccountKeys)
		}
	}
	t.Logf("%d of %d packets seen, %d KiB after a fifth, %d at the end", s.Seen, batches*pairs*packets, early, late)
}

// A program that is attached to a captured interface, or detached from it, changes how its packets
// are captured: it is traced, as a source of its own.
func TestPatternsTraced(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	target := testnet.MustTarget(t, pair, testnet.Hooked)
	file := systest.TempFile(t)
	p := systest.Listening(t, pair.Rx, nil, "-i", "rx*", "-w", file, "--json", "-U")
	testnet.Send(t, pair, testnet.UDPFrame(100, 0))
	testnet.Must(t, target.Close())
	systest.WaitStderr(t, p, "rx0 has come and is captured, too: rx0@ingress")
	testnet.Send(t, pair, testnet.UDPFrame(100, 1))
	testnet.WaitFor(t, "the end of the source that has gone", func() bool { return strings.Contains(blocksOf(t, file), "statistics0") })
	s := systest.Account(t, p.Interrupt())
	var got []string
	for _, i := range s.Interfaces {
		got = append(got, fmt.Sprintf("%s %s %d %d %v", i.Interface, i.Hook, i.Seen, i.Captured, i.Gone))
	}
	if diff := cmp.Diff([]string{"rx0 entry 1 1 true", "rx0 ingress 1 1 false"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A port that is added to a bridge is captured, although the bridge was captured before: the kernel
// attaches no program below another one. A port that is there at the beginning is attached before
// its bridge, although it has a greater index.
func TestPatternsBelow(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{Addresses: true})
	testnet.Uppers[1].MustAdd(t, pair) // br0
	addPort := func(name string) {
		t.Helper()
		testnet.Must(t, pair.Rx.Do(func() error {
			bridge, err := netlink.LinkByName("br0")
			if err != nil {
				return err
			}
			attrs := netlink.NewLinkAttrs()
			attrs.Name, attrs.MasterIndex = name, bridge.Attrs().Index
			port := &netlink.Veth{LinkAttrs: attrs, PeerName: name + "-peer"}
			return errors.Join(netlink.LinkAdd(port), netlink.LinkSetUp(port))
		}))
	}
	captured := func(port, said string, p *systest.Process) {
		t.Helper()
		testnet.WaitFor(t, port+" and the bridge", func() bool {
			return strings.Contains(p.Stderr(), said) && hasProgram(t, pair.Rx, port) && hasProgram(t, pair.Rx, "br0")
		})
	}
	addPort("early0")
	p := systest.Listening(t, pair.Rx, nil, "-i", "any", "--except", "lo,*-peer", "--at", "xdp", "-w", "/dev/null", "--json")
	captured("early0", "listening on rx0,early0, XDP native, and on br0, XDP generic, and on interfaces", p)
	addPort("late0")
	captured("late0", "br0 is captured anew, because late0 has come below it", p)
	systest.WaitStderr(t, p, "br0 has come and is captured, too")
	if strings.Count(p.Stderr(), "captured anew") != 1 {
		t.Error(p.Stderr())
	}
	if s := systest.Account(t, p.Interrupt()); s.Seen != s.Captured || s.Lost != 0 {
		t.Errorf("%+v", s.AccountKeys)
	}
}

// A packet that passes a bridge and its port is captured at each.
func TestAnyAbove(t *testing.T) {
	t.Parallel()
	for i := range 2 * len(testnet.Uppers) {
		u, at := &testnet.Uppers[i/2], []string{"xdp", "auto"}[i%2]
		t.Run(u.Name+", "+at, func(t *testing.T) {
			t.Parallel()
			pair := testnet.MustPair(t, testnet.PairOptions{Addresses: true})
			above := u.MustAdd(t, pair)
			file := systest.TempFile(t)
			p := systest.Listening(t, pair.Rx, nil, "-i", "any", "--except", "lo", "--at", at, "-w", file, "--json", "-U", "--vlan-aware", "udp port 4789")
			frame := u.Frame(testnet.TxToRx().UDP(1000, 4789, make([]byte, 64)))
			const packets = 5
			// If a bridge has VLANs, three interfaces see each frame, so the number of packets in
			// the file does not show whether the last frame has arrived.
			sender := testnet.MustSender(t, pair)
			for range packets {
				testnet.Must(t, sender.Send(frame))
			}
			testnet.WaitHandled(t)
			testnet.WaitFor(t, "the packets", func() bool { return strings.Count(blocksOf(t, file), "packet") >= 2*packets })
			captured := make(map[string]uint64)
			for _, i := range systest.Account(t, p.Interrupt()).Interfaces {
				captured[i.Interface] += i.Captured
				if i.Unexplained != 0 {
					t.Errorf("%s: %+v", i.Interface, i.AccountKeys)
				}
			}
			if strings.Contains(p.Stderr(), "did not pass") {
				t.Error(p.Stderr())
			}
			if captured[pair.RxName] != packets || captured[above] != packets {
				t.Errorf("%v, want %d at %s and at %s: %s", captured, packets, pair.RxName, above, p.Stderr())
			}
		})
	}
}

// Files of a series describe the interfaces that appeared before them. Lines, metrics, streams and
// a collector of sFlow get the packets of later interfaces, too.
func TestPatternsOutputs(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	l := systest.ListenSFlow(t, pair.Rx)
	file, lines := systest.TempFile(t), systest.NewPipe(t)
	p := systest.Listening(t, pair.Rx, lines.In, "-i", "rx*", "-w", file, "-b", "packets:2", "--print", "--listen", "127.0.0.1:0",
		"--serve", "127.0.0.1:0", "-w", "sflow://"+l.Address, "--json", "-U")
	client, stream := systest.Join(t, pair, p)
	await := func(blocks string) {
		t.Helper()
		client.SetReadDeadline(time.Now().Add(testnet.Patience))
		for buf := make([]byte, 4096); blocksIn(stream) != blocks; {
			n, err := client.Read(buf)
			if stream = append(stream, buf[:n]...); err != nil {
				t.Fatalf("%v after %s, want %s", err, blocksIn(stream), blocks)
			}
		}
	}
	await("section interface") // of rx0; that of rx1 is written with its first packet
	late := testnet.MustPair(t, testnet.PairOptions{Rx: pair.Rx, RxName: "rx1"})
	systest.WaitStderr(t, p, "rx1 has come")
	const packets = 5
	systest.SendNumbered(t, late, packets, 100)
	const all = "section interface interface packet1 packet1 packet1 packet1 packet1"
	await(all)
	index := make(map[uint32]int)
	for _, sample := range l.Wait(t, systest.FlowSample, packets) {
		index[sample.SourceIndex]++
	}
	if diff := cmp.Diff(map[uint32]int{uint32(late.RxIndex): packets}, index); diff != "" {
		t.Errorf("samples by their interfaces: %s", diff)
	}
	systest.WaitMetric(t, pair, p, `xdpcap_captured_packets_total{hook="ingress",interface="rx1",program="",program_id=""} 5`)
	systest.InRx(t, late, netlink.LinkDel)
	testnet.WaitFor(t, "the end of the series", func() bool {
		return !strings.Contains(systest.Scrape(t, pair, systest.MetricsURL(t, p)), `interface="rx1"`)
	})
	await(all + " statistics1") // as soon as rx1 has gone
	if s := systest.Account(t, p.Interrupt()); s.Captured != packets || s.Seen != packets || s.NotTaken != 0 {
		t.Errorf("%+v", s.AccountKeys)
	}
	await(all + " statistics1 statistics0")
	if n := strings.Count(lines.Read(t), " rx1@ingress "); n != packets {
		t.Errorf("%d lines of rx1: %s", n, lines.Read(t))
	}
	files, _ := filepath.Glob(strings.TrimSuffix(file, ".pcapng") + "_*")
	if len(files) != 3 {
		t.Fatalf("files %v", files)
	}
	for i, name := range files {
		packets, _ := systest.ReadFile(t, name)
		if want := min(2, 5-2*i); len(packets) != want || !strings.HasPrefix(blocksOf(t, name), "section interface interface packet1") {
			t.Errorf("%s has %d packets, want %d: %s", name, len(packets), want, blocksOf(t, name))
		}
	}
}

// The recorder keeps and writes the packets of an interface that appears later.
func TestPatternsRecorder(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	file := systest.TempFile(t)
	p := systest.Listening(t, pair.Rx, nil, "-i", "rx*", "--ring", "1M", "-w", file, "--trigger", "udp port 7", "--json")
	late := testnet.MustPair(t, testnet.PairOptions{Rx: pair.Rx, RxName: "rx1"})
	systest.WaitStderr(t, p, "rx1 has come")
	testnet.Send(t, pair, testnet.UDPFrame(100, 0))
	testnet.Send(t, late, testnet.UDPFrame(100, 1))
	testnet.Send(t, late, testnet.TxToRx().UDP(7, 7, make([]byte, 60)))
	written := strings.TrimSuffix(file, ".pcapng") + "-1.pcapng"
	systest.WaitForFile(t, p, written)
	testnet.Send(t, late, testnet.UDPFrame(100, 2))
	if s := systest.Account(t, p.Interrupt()); s.Captured != 3 || s.Seen != 4 || s.NotRecorded != 1 {
		t.Errorf("%+v", s.AccountKeys)
	}
	if got := blocksOf(t, written); got != "section interface interface packet0 packet1 packet1 statistics0 statistics1" {
		t.Error(got)
	}
}
