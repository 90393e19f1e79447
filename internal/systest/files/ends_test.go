package files_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

func TestSignals(t *testing.T) {
	t.Parallel()
	testnet.SkipEmulated(t)
	// Under nohup the test ignores SIGHUP, and xdpcap would inherit that. It does not inherit that
	// a signal is caught.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	defer systest.Trickle(t, pair)()
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		file := systest.TempFile(t)
		p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", file, "--json")
		testnet.WaitFor(t, "packets", func() bool { return systest.FileSize(file) > 10_000 })
		p.Cmd.Process.Signal(sig)
		status, stderr := p.Wait()
		if status != 0 {
			t.Errorf("%v: exit status %d: %s", sig, status, stderr)
		}
		s := systest.Account(t, stderr)
		records, r := systest.ReadFile(t, file)
		if uint64(len(records)) != s.Captured || s.Captured == 0 {
			t.Errorf("%v: %d packets in the file, summary %+v", sig, len(records), s)
		}
		if ifi, err := r.Interface(0); err != nil || ifi.Statistics.PacketsReceived != s.Seen {
			t.Errorf("%v: statistics %+v, %v; summary %+v", sig, ifi.Statistics, err, s)
		}
		systest.CheckDetached(t, pair)
	}
}

func TestCountAndDuration(t *testing.T) {
	t.Parallel()
	testnet.SkipEmulated(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	defer systest.Trickle(t, pair)()
	for _, args := range [][]string{{"-c", "50"}, {"--duration", "300ms"}} {
		var s systest.Summary
		testnet.WaitFor(t, "a capture that sees packets", func() bool { // on a busy machine none may come in 300 ms
			file := systest.TempFile(t)
			p := systest.Listening(t, pair.Rx, nil, append(args, "-i", pair.RxName, "-w", file, "--json")...)
			status, stderr := p.Wait()
			s = systest.Account(t, stderr)
			records, _ := systest.ReadFile(t, file)
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
		systest.CheckDetached(t, pair)
	}
}

// The closing lines are tcpdump's, and the account.
func TestClosingLines(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", os.DevNull)
	_, n := testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(64, 0), Count: 300, Rate: 10_000})
	want := "xdpcap: listening on rx0, XDP native, link-type EN10MB (Ethernet), snapshot length 65412 bytes\n" +
		fmt.Sprintf("%[1]d packets captured\n%[1]d packets received by filter\n0 packets dropped by kernel\n"+
			"xdpcap: %[1]d seen = 0 filtered out + 0 not sampled + 0 lost + 0 invalid + %[1]d captured\n", n)
	if got := p.Interrupt(); got != want {
		t.Errorf("stderr:\n%swant:\n%s", got, want)
	}
}

// SIGUSR1 prints the counts so far: as text, or with --json as an object.
func TestSIGUSR1(t *testing.T) {
	t.Parallel()
	testnet.SkipEmulated(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	for _, args := range [][]string{{}, {"--json"}} {
		p := systest.Listening(t, pair.Rx, nil, append([]string{"-i", pair.RxName, "-w", os.DevNull}, args...)...)
		_, arrived := testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(64, 0), Count: 300, Rate: 10_000})
		p.Cmd.Process.Signal(syscall.SIGUSR1)
		testnet.WaitFor(t, "the counts", func() bool {
			if len(args) > 0 {
				all := systest.Summaries(t, p.Said())
				return len(all) == 1 && all[0].Seen == arrived
			}
			return strings.Contains(p.Said(), fmt.Sprintf("xdpcap: %d seen = ", arrived))
		})
		stderr := p.Interrupt()
		if text := strings.Contains(stderr, " seen = "); text != (len(args) == 0) {
			t.Errorf("%v: %s", args, stderr)
		}
	}
}

func TestInterfaceDeleted(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	file := systest.TempFile(t)
	p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", file, "--json")
	_, arrived := testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(64, 0), Count: 300})
	systest.InRx(t, pair, netlink.LinkDel)
	status, stderr := p.Wait()
	if status != 1 || !strings.Contains(stderr, "xdpcap: interface rx0 was deleted or moved to another network namespace\n") {
		t.Errorf("exit status %d: %s", status, stderr)
	}
	records, _ := systest.ReadFile(t, file)
	if s := systest.Account(t, stderr); s.Captured != arrived || uint64(len(records)) != arrived {
		t.Errorf("%d packets in the file of %d, summary %+v", len(records), arrived, s)
	}
}

func TestInterfaceDownAndUp(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	file := systest.TempFile(t)
	p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", file, "--json")
	_, before := testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(64, 0), Count: 300})
	systest.InRx(t, pair, netlink.LinkSetDown)
	systest.InRx(t, pair, netlink.LinkSetUp)
	defer systest.Trickle(t, pair)()
	testnet.WaitFor(t, "packets after the interface is up again", func() bool { return packetBlocks(t, file) > int(before) })
	if s := systest.Account(t, p.Interrupt()); s.Captured <= before {
		t.Errorf("%d packets before, summary %+v", before, s)
	}
}

// Packets reach the file while the capture runs, even if no more follow. After SIGKILL they are in
// it, nothing is attached, and the kernel has neither the program nor its maps any more.
func TestKilled(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	for _, transport := range []string{"perf", "ring"} {
		t.Run(transport, func(t *testing.T) {
			file := systest.TempFile(t)
			p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", file, "--transport", transport)
			_, delivered := testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(64, 0), Count: 2500, Rate: 100_000})
			packets := int(delivered) // on a busy machine the pair's queue may have had no room for all
			testnet.WaitFor(t, "the packets to get into the file", func() bool { return packetBlocks(t, file) == packets })
			program, maps := samplerOf(t, pair)
			p.Cmd.Process.Kill()
			<-p.Done
			testnet.WaitFor(t, "the kernel to detach", func() bool { return systest.Attached(t, pair) == "" })
			systest.WaitReleased(t, program, maps)
			if records, _ := systest.ReadFile(t, file); len(records) != packets {
				t.Errorf("%d packets in the file", len(records))
			}
		})
	}
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
		maps, err = systest.MapsOf(id)
		return err
	})
	if err != nil || len(maps) == 0 {
		t.Fatalf("program %d with %d maps: %v", id, len(maps), err)
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
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := systest.Listening(t, pair.Rx, w, "-ni", pair.RxName, "-c", "2")
	w.Close()
	testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(64, 0), Count: 2})
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if status, stderr := p.Wait(); status != 0 {
		t.Errorf("exit status %d: %s", status, stderr)
	}
	want := " IP 192.0.2.1.9999 > 192.0.2.2.9999: UDP, length 22\n"
	if strings.Count(string(out), want) != 2 || strings.Count(string(out), "\n") != 2 {
		t.Errorf("printed %q, want two lines that end in %q", out, want)
	}
}

// --print and -w together.
func TestPrintAndWrite(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	file := systest.TempFile(t)
	p := systest.Listening(t, pair.Rx, w, "-i", pair.RxName, "-c", "2", "-w", file, "--print")
	w.Close()
	testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(64, 0), Count: 2})
	out, _ := io.ReadAll(r)
	p.Wait()
	if records, _ := systest.ReadFile(t, file); len(records) != 2 || strings.Count(string(out), "\n") != 2 {
		t.Errorf("%d packets in the file, printed %q", len(records), out)
	}
	if info, err := os.Stat(file); err != nil || fmt.Sprintf("%o", info.Mode().Perm()) != "600" {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}
