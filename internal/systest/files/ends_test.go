package files_test

import (
	"encoding/binary"
	"fmt"
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

// A capture ends by each signal, also if it arrives twice at once as from timeout(1), after its
// number of packets and at its time, while packets arrive. Account, file and statistics agree.
func TestEnds(t *testing.T) {
	t.Parallel()
	// Under nohup the test ignores SIGHUP, and xdpcap would inherit that. It does not inherit a
	// caught signal.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	for _, test := range []struct {
		args    string
		signals []syscall.Signal
	}{
		{"", []syscall.Signal{syscall.SIGINT}},
		{"", []syscall.Signal{syscall.SIGHUP}},
		{"", []syscall.Signal{syscall.SIGTERM, syscall.SIGTERM}},
		{"-c 50", nil},
		{"--duration 300ms", nil},
	} {
		t.Run(fmt.Sprint(test.args, test.signals), func(t *testing.T) {
			t.Parallel()
			pair := testnet.MustPair(t, testnet.PairOptions{})
			generate(t, pair, 100_000)
			testnet.WaitFor(t, "a capture that sees packets", func() bool { // on a busy machine no packet may arrive in 300 ms
				file := systest.TempFile(t)
				args := append(strings.Fields(test.args), "-i", pair.RxName, "-w", file, "--json")
				p := systest.Listening(t, pair.Rx, nil, args...)
				for i, sig := range test.signals {
					if i == 0 {
						testnet.WaitFor(t, "packets", func() bool { return systest.FileSize(file) > 10_000 })
					}
					p.Cmd.Process.Signal(sig)
				}
				status, stderr := p.Wait()
				s := systest.Account(t, stderr)
				records, r := systest.ReadFile(t, file)
				if got := systest.Statistics(t, r); status != 0 || uint64(len(records)) != s.Captured || got.PacketsReceived != s.Seen {
					t.Errorf("exit status %d, %d packets in the file, statistics %+v: %s", status, len(records), got, stderr)
				}
				if test.args == "-c 50" && s.Captured != 50 || strings.HasPrefix(test.args, "--duration") && s.Duration < 0.3 {
					t.Errorf("summary %+v", s)
				}
				systest.CheckDetached(t, pair)
				return s.Captured > 0
			})
		})
	}
}

// SIGUSR1 prints the counts so far. The closing lines are tcpdump's, and the account.
func TestClosingLines(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", os.DevNull)
	_, n := testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(64, 0), Count: 300, Rate: 10_000})
	p.Cmd.Process.Signal(syscall.SIGUSR1)
	counts := fmt.Sprintf("xdpcap: %d seen = ", n)
	testnet.WaitFor(t, "the counts", func() bool { return strings.Contains(p.Stderr(), counts) })
	begins := "xdpcap: rx0: while XDP runs here, the other end of the veth pair sends TCP much slower, without TSO: --at tc avoids that\n" +
		"xdpcap: listening on rx0, XDP native, link-type EN10MB (Ethernet), snapshot length 65412 bytes\n"
	ends := fmt.Sprintf("%[1]d packets captured\n%[1]d packets received by filter\n0 packets dropped by kernel\n"+
		"xdpcap: %[1]d seen = 0 filtered out + 0 not sampled + 0 lost + 0 invalid + %[1]d captured\n", n)
	if got := p.Interrupt(); !strings.HasPrefix(got, begins) || !strings.HasSuffix(got, ends) || strings.Count(got, "\n") != 10 {
		t.Errorf("stderr:\n%swant:\n%s...%s", got, begins, ends)
	}
}

// A capture goes on after its interface was down. It ends when the interface is deleted, with every
// packet before that.
func TestInterfaceDeleted(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	file := systest.TempFile(t)
	p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", file, "--json")
	frames := testnet.GeneratorOptions{Frame: testnet.UDPFrame(64, 0), Count: 300}
	_, before := testnet.Generate(t, pair, frames)
	systest.InRx(t, pair, netlink.LinkSetDown)
	systest.InRx(t, pair, netlink.LinkSetUp)
	stop := systest.Trickle(t, pair)
	testnet.WaitFor(t, "packets after the interface is up again", func() bool { return packetBlocks(t, file) > int(before) })
	stop()
	_, after := testnet.Generate(t, pair, frames)
	systest.InRx(t, pair, netlink.LinkDel)
	status, stderr := p.Wait()
	if status != 1 || !strings.Contains(stderr, "xdpcap: interface rx0 was deleted or moved to another network namespace\n") {
		t.Errorf("exit status %d: %s", status, stderr)
	}
	records, _ := systest.ReadFile(t, file)
	if s := systest.Account(t, stderr); s.Captured <= before+after || s.Captured != s.Seen || uint64(len(records)) != s.Captured {
		t.Errorf("%d packets before and %d after, %d in the file, summary %+v", before, after, len(records), s)
	}
}

// Packets reach the file while the capture runs, even if there are no more packets. After SIGKILL
// they are in it, no program is attached, and the kernel has released the program and its maps.
func TestKilled(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"perf", "ring"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			pair := testnet.MustPair(t, testnet.PairOptions{})
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
	testnet.Must(t, err)
	const head, enhancedPacket = 8, 6 // a block's type and length; the type of a packet's block
	for len(data) >= head {
		length := int(binary.LittleEndian.Uint32(data[4:]))
		if length < head || length > len(data) {
			return n // the block is incomplete
		}
		if binary.LittleEndian.Uint32(data) == enhancedPacket {
			n++
		}
		data = data[length:]
	}
	return n
}
