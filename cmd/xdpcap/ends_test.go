package main_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// checkDetached looks for what a capture must never leave behind.
func checkDetached(t *testing.T, pair *testnet.Pair) {
	t.Helper()
	if prog := attached(t, pair); prog != "" {
		t.Errorf("XDP program %s is still attached", prog)
	}
}

// trickle sends frames, ten thousand a second at most, until the returned function is called. A
// capture that a busy machine leaves without a CPU for a second or two loses none of them.
func trickle(t *testing.T, pair *testnet.Pair) (stop func()) {
	t.Helper()
	sender := testnet.MustSender(t, pair)
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for seq := uint64(0); ; seq++ {
			select {
			case <-quit:
				return
			default:
				if seq%10 == 0 {
					time.Sleep(time.Millisecond)
				}
				sender.Send(testnet.UDPFrame(200, seq)) // fails while the interface is down
			}
		}
	}()
	stop = func() {
		if quit != nil {
			close(quit)
			<-done
			quit = nil
		}
	}
	t.Cleanup(stop)
	return stop
}

func TestSignals(t *testing.T) {
	skipEmulated(t)
	// Under nohup the test ignores SIGHUP, and xdpcap would inherit that. It does not inherit that
	// a signal is caught.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	defer trickle(t, pair)()
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		file := tempFile(t)
		p := listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", file, "--json")
		testnet.WaitFor(t, "packets", func() bool { return fileSize(file) > 10_000 })
		p.cmd.Process.Signal(sig)
		status, stderr := p.wait()
		if status != 0 {
			t.Errorf("%v: exit status %d: %s", sig, status, stderr)
		}
		s := account(t, stderr)
		records, r := readFile(t, file)
		if uint64(len(records)) != s.Captured || s.Captured == 0 {
			t.Errorf("%v: %d packets in the file, summary %+v", sig, len(records), s)
		}
		if ifi, err := r.Interface(0); err != nil || ifi.Statistics.PacketsReceived != s.Seen {
			t.Errorf("%v: statistics %+v, %v; summary %+v", sig, ifi.Statistics, err, s)
		}
		checkDetached(t, pair)
	}
}

func fileSize(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

func TestCountAndDuration(t *testing.T) {
	skipEmulated(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	defer trickle(t, pair)()
	for _, args := range [][]string{{"-c", "50"}, {"--duration", "300ms"}} {
		var s summary
		testnet.WaitFor(t, "a capture that sees packets", func() bool { // on a busy machine none may come in 300 ms
			file := tempFile(t)
			p := listening(t, pair.Rx, nil, append(args, "-i", pair.RxName, "-w", file, "--json")...)
			status, stderr := p.wait()
			s = account(t, stderr)
			records, _ := readFile(t, file)
			if status != 0 || uint64(len(records)) != s.Captured {
				t.Errorf("%v: exit status %d, %d packets, %s", args, status, len(records), stderr)
			}
			return s.Captured > 0
		})
		if args[0] == "-c" && s.Captured != 50 {
			t.Errorf("-c 50: %d captured", s.Captured)
		}
		if args[0] == "--duration" && s.Duration < 0.3 {
			t.Errorf("--duration 300ms: took %v s", s.Duration)
		}
		checkDetached(t, pair)
	}
}

// The closing lines are tcpdump's, and the account.
func TestClosingLines(t *testing.T) {
	pair := testnet.MustPair(t, testnet.PairOptions{})
	p := listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", os.DevNull)
	_, n := testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(64, 0), Count: 300, Rate: 10_000})
	want := "xdpcap: listening on rx0, XDP native, link-type EN10MB (Ethernet), snapshot length 65412 bytes\n" +
		fmt.Sprintf("%[1]d packets captured\n%[1]d packets received by filter\n0 packets dropped by kernel\n"+
			"xdpcap: %[1]d seen = 0 filtered out + 0 not sampled + 0 lost + 0 invalid + %[1]d captured\n", n)
	if got := p.interrupt(); got != want {
		t.Errorf("stderr:\n%swant:\n%s", got, want)
	}
}

// SIGUSR1 prints the counts so far: as text, or with --json as an object.
func TestSIGUSR1(t *testing.T) {
	skipEmulated(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	for _, args := range [][]string{{}, {"--json"}} {
		p := listening(t, pair.Rx, nil, append([]string{"-i", pair.RxName, "-w", os.DevNull}, args...)...)
		_, arrived := testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(64, 0), Count: 300, Rate: 10_000})
		p.cmd.Process.Signal(syscall.SIGUSR1)
		testnet.WaitFor(t, "the counts", func() bool {
			if len(args) > 0 {
				all := summaries(t, p.said())
				return len(all) == 1 && all[0].Seen == arrived
			}
			return strings.Contains(p.said(), fmt.Sprintf("xdpcap: %d seen = ", arrived))
		})
		stderr := p.interrupt()
		if text := strings.Contains(stderr, " seen = "); text != (len(args) == 0) {
			t.Errorf("%v: %s", args, stderr)
		}
	}
}

func TestInterfaceDeleted(t *testing.T) {
	pair := testnet.MustPair(t, testnet.PairOptions{})
	file := tempFile(t)
	p := listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", file, "--json")
	_, arrived := testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(64, 0), Count: 300})
	inRx(t, pair, netlink.LinkDel)
	status, stderr := p.wait()
	if status != 1 || !strings.Contains(stderr, "xdpcap: interface rx0 was deleted or moved to another network namespace\n") {
		t.Errorf("exit status %d: %s", status, stderr)
	}
	records, _ := readFile(t, file)
	if s := account(t, stderr); s.Captured != arrived || uint64(len(records)) != arrived {
		t.Errorf("%d packets in the file of %d, summary %+v", len(records), arrived, s)
	}
}

func TestInterfaceDownAndUp(t *testing.T) {
	pair := testnet.MustPair(t, testnet.PairOptions{})
	file := tempFile(t)
	p := listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", file, "--json")
	_, before := testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(64, 0), Count: 300})
	inRx(t, pair, netlink.LinkSetDown)
	inRx(t, pair, netlink.LinkSetUp)
	defer trickle(t, pair)()
	testnet.WaitFor(t, "packets after the interface is up again", func() bool { return packetBlocks(t, file) > int(before) })
	if s := account(t, p.interrupt()); s.Captured <= before {
		t.Errorf("%d packets before, summary %+v", before, s)
	}
}

// inRx does something to the receiving interface.
func inRx(t *testing.T, pair *testnet.Pair, do func(netlink.Link) error) {
	t.Helper()
	err := pair.Rx.Do(func() error {
		l, err := netlink.LinkByName(pair.RxName)
		if err != nil {
			return err
		}
		return do(l)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Packets reach the file while the capture runs, even if no more follow. After SIGKILL they are in
// it, nothing is attached, and the kernel has neither the program nor its maps any more.
func TestKilled(t *testing.T) {
	pair := testnet.MustPair(t, testnet.PairOptions{})
	for _, transport := range []string{"perf", "ring"} {
		t.Run(transport, func(t *testing.T) {
			file := tempFile(t)
			p := listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", file, "--transport", transport)
			_, delivered := testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(64, 0), Count: 2500, Rate: 100_000})
			packets := int(delivered) // on a busy machine the pair's queue may have had no room for all
			testnet.WaitFor(t, "the packets to get into the file", func() bool { return packetBlocks(t, file) == packets })
			program, maps := samplerOf(t, pair)
			p.cmd.Process.Kill()
			<-p.done
			testnet.WaitFor(t, "the kernel to detach", func() bool { return attached(t, pair) == "" })
			waitReleased(t, program, maps)
			if records, _ := readFile(t, file); len(records) != packets {
				t.Errorf("%d packets in the file", len(records))
			}
		})
	}
}

// waitReleased waits until the kernel has neither a program nor its maps any more.
func waitReleased(t *testing.T, program ebpf.ProgramID, maps []ebpf.MapID) {
	t.Helper()
	testnet.WaitFor(t, "the kernel to remove program and maps", func() bool {
		left, err := ebpf.NewProgramFromID(program)
		if err == nil {
			left.Close()
		}
		gone := errors.Is(err, os.ErrNotExist)
		for _, id := range maps {
			left, err := ebpf.NewMapFromID(id)
			if err == nil {
				left.Close()
			}
			gone = gone && errors.Is(err, os.ErrNotExist)
		}
		return gone
	})
}

// samplerOf returns the program on the pair's receiving interface, and its maps.
func samplerOf(t *testing.T, pair *testnet.Pair) (id ebpf.ProgramID, maps []ebpf.MapID) {
	t.Helper()
	err := pair.Rx.Do(func() error {
		ifi, err := xdp.InterfaceByName(pair.RxName)
		if err != nil {
			return err
		}
		id = ebpf.ProgramID(ifi.Programs[0].ID)
		maps, err = mapsOf(id)
		return err
	})
	if err != nil || len(maps) == 0 {
		t.Fatalf("program %d with %d maps: %v", id, len(maps), err)
	}
	return id, maps
}

func mapsOf(id ebpf.ProgramID) ([]ebpf.MapID, error) {
	program, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return nil, err
	}
	defer program.Close()
	info, err := program.Info()
	if err != nil {
		return nil, err
	}
	maps, _ := info.MapIDs()
	return maps, nil
}

// behindStub returns the program that a stub calls, and its maps.
func behindStub(t *testing.T, stub ebpf.ProgramID) (id ebpf.ProgramID, maps []ebpf.MapID) {
	t.Helper()
	arrays, err := mapsOf(stub)
	if err != nil || len(arrays) != 1 {
		t.Fatalf("program %d has %d maps, a stub has one; %v", stub, len(arrays), err)
	}
	array, err := ebpf.NewMapFromID(arrays[0])
	if err != nil {
		t.Fatal(err)
	}
	defer array.Close()
	if err := array.Lookup(uint32(0), &id); err != nil {
		t.Fatal(err)
	}
	if maps, err = mapsOf(id); err != nil {
		t.Fatal(err)
	}
	return id, maps
}

// packetBlocks counts the packets in a file that is still being written.
func packetBlocks(t *testing.T, file string) (n int) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const head, enhancedPacket = 8, 6 // a block's type and length; the type of a packet's block
	for len(data) >= head {
		length := int(binary.LittleEndian.Uint32(data[4:]))
		if length < head || length > len(data) {
			return n // the block is not whole yet
		}
		if binary.LittleEndian.Uint32(data) == enhancedPacket {
			n++
		}
		data = data[length:]
	}
	return n
}

func TestPrintToPipe(t *testing.T) {
	pair := testnet.MustPair(t, testnet.PairOptions{})
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := listening(t, pair.Rx, w, "-ni", pair.RxName, "-c", "2")
	w.Close()
	testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(64, 0), Count: 2})
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if status, stderr := p.wait(); status != 0 {
		t.Errorf("exit status %d: %s", status, stderr)
	}
	want := " IP 192.0.2.1.9999 > 192.0.2.2.9999: UDP, length 22\n"
	if strings.Count(string(out), want) != 2 || strings.Count(string(out), "\n") != 2 {
		t.Errorf("printed %q, want two lines that end in %q", out, want)
	}
}

// --print and -w together.
func TestPrintAndWrite(t *testing.T) {
	pair := testnet.MustPair(t, testnet.PairOptions{})
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	file := tempFile(t)
	p := listening(t, pair.Rx, w, "-i", pair.RxName, "-c", "2", "-w", file, "--print")
	w.Close()
	testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(64, 0), Count: 2})
	out, _ := io.ReadAll(r)
	p.wait()
	if records, _ := readFile(t, file); len(records) != 2 || strings.Count(string(out), "\n") != 2 {
		t.Errorf("%d packets in the file, printed %q", len(records), out)
	}
	if info, err := os.Stat(file); err != nil || fmt.Sprintf("%o", info.Mode().Perm()) != "600" {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}
