package drops_test

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// Packets that the stack drops have their reason and function in lines, in JSON, in the file and in
// the output of read, also in the sandbox.
func TestStackDrops(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{Addresses: true})
	for _, transport := range []string{"perf", "ring"} {
		t.Run(transport, func(t *testing.T) {
			dir := t.TempDir()
			file, objects := filepath.Join(dir, "out.pcapng"), filepath.Join(dir, "out.json")
			lines := systest.NewPipe(t)
			p := systest.Listening(t, pair.Rx, lines.In, "-i", pair.RxName, "--drops", "-w", file, "-w", objects, "--print", "--json", "--transport", transport, "udp")
			if name := systest.Attached(t, pair); name != "" {
				t.Errorf("%s is attached", name)
			}
			systest.SendClosed(t, pair, 9, 10, 11)
			if s := systest.Account(t, p.Interrupt()); s.Captured != 3 || s.Seen != s.FilteredOut+3 {
				t.Fatalf("summary %+v", s)
			}

			label := " rx0@drop[NO_SOCKET " + testnet.NoSocketFunction() + "] IP "
			printed := map[string]string{"printed": lines.Read(t)}
			if !testnet.Emulated() {
				copied := filepath.Join(dir, "copied.pcapng")
				systest.MustRead(t, "-q", "-w", copied, file)
				printed["read"], printed["copied"] = systest.MustRead(t, file), systest.MustRead(t, copied)
				reasons := systest.StatsOf(t, file).Reasons
				if len(reasons) != 1 || reasons[0].Reason != "NO_SOCKET" || reasons[0].Location != testnet.NoSocketFunction() || reasons[0].Packets != 3 {
					t.Errorf("%+v", reasons)
				}
				if text := systest.MustRead(t, "--stats", file); !strings.Contains(text, "\nREASON     WHERE ") || !strings.Contains(text, "\nNO_SOCKET  "+testnet.NoSocketFunction()+" ") {
					t.Error(text)
				}
			}
			for where, lines := range printed {
				if strings.Count(lines, label) != 3 || strings.Count(lines, "\n") != 3 {
					t.Errorf("%s: %s", where, lines)
				}
			}
			described := map[string]string{"written": systest.Contents(t, objects)}
			if !testnet.Emulated() {
				described["read"] = systest.MustRead(t, "--format", "json", file)
			}
			for where, lines := range described {
				packets := systest.Objects[systest.PacketKeys](t, lines)
				for _, p := range packets {
					if got := fmt.Sprint(p.Interface, p.Hook, p.Direction, p.Reason, p.Location); got != "rx0dropNO_SOCKET"+testnet.NoSocketFunction() {
						t.Errorf("%s: %s", where, got)
					}
				}
				if len(packets) != 3 {
					t.Errorf("%s: %d packets, want 3", where, len(packets))
				}
			}
			for _, p := range systest.ReadTraced(t, file) {
				if got := fmt.Sprint(p.Comments); got != "[thrown away: NO_SOCKET in "+testnet.NoSocketFunction()+"]" {
					t.Error(got)
				}
			}
		})
	}
}

// With -i any, packets that the stack drops at all interfaces of the namespace have the interface
// that dropped them. Those of other namespaces are not captured.
func TestStackDropsAny(t *testing.T) {
	t.Parallel()
	pair, other := testnet.MustPair(t, testnet.PairOptions{Addresses: true}), testnet.MustPair(t, testnet.PairOptions{Addresses: true})
	file, objects := systest.TempFile(t), filepath.Join(t.TempDir(), "out.json")
	collector := systest.ListenSFlow(t, pair.Rx)
	p := systest.Listening(t, pair.Rx, nil, "-i", "any", "--drops", "-w", file, "-w", objects, "-w", "sflow://"+collector.Address, "--json", "udp")
	systest.SendClosed(t, other, 9)
	systest.SendClosed(t, pair, 9, 10)
	systest.InRx(t, pair, func(netlink.Link) error {
		c, err := net.Dial("udp4", "127.0.0.1:11")
		if err == nil {
			_, err = c.Write([]byte("lo"))
			c.Close()
		}
		return err
	})
	testnet.WaitHandled(t)
	if s := systest.Account(t, p.Interrupt()); s.Captured != 3 || s.Seen != s.FilteredOut+3 {
		t.Errorf("summary %+v", s)
	}
	read, plain := systest.MustRead(t, "--format", "json", file), systest.MustRead(t, file)
	for where, lines := range map[string]string{"written": systest.Contents(t, objects), "read": read} {
		got := make(map[string]int)
		for _, p := range systest.Objects[systest.PacketKeys](t, lines) {
			got[fmt.Sprintf("{%s %s %s %s}", p.Interface, p.Hook, p.Device, p.Reason)]++
		}
		if diff := cmp.Diff(map[string]int{"{any drop rx0 NO_SOCKET}": 2, "{any drop lo NO_SOCKET}": 1}, got); diff != "" {
			t.Errorf("%s: %s", where, diff)
		}
	}
	indexes := make(map[uint32]int)
	for _, discard := range systest.SamplesOf(collector.Read(t), systest.DiscardedSample) {
		indexes[discard.SourceIndex]++
	}
	const loopback = 1
	if diff := cmp.Diff(map[uint32]int{systest.InterfaceIndex(t, pair): 2, loopback: 1}, indexes); diff != "" {
		t.Errorf("interfaces of sFlow: %s", diff)
	}
	if label := " any@drop[NO_SOCKET " + testnet.NoSocketFunction() + " at lo] IP "; strings.Count(plain, label) != 1 {
		t.Error(plain)
	}
}

// Packets that the interface's XDP program drops are printed and counted beside those that the
// stack drops, each with its own label.
func TestStackDropsTraced(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{Addresses: true})
	testnet.MustTarget(t, pair, testnet.Hooked)
	file, objects := systest.TempFile(t), filepath.Join(t.TempDir(), "out.json")
	p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "--drops", "-w", file, "-w", objects, "--json", "udp")
	systest.SendClosed(t, pair, testnet.DropPort, testnet.AbortPort, 99, 100)
	if s := systest.Account(t, p.Interrupt()); s.Captured != 4 || s.Seen != s.FilteredOut+4 {
		t.Errorf("summary %+v", s)
	}
	got := make(map[string]int)
	for _, p := range systest.Objects[systest.PacketKeys](t, systest.Contents(t, objects)) {
		got[fmt.Sprintf("{%s %s %s}", p.Hook, p.Verdict, p.Reason)]++
	}
	if diff := cmp.Diff(map[string]int{"{exit drop }": 1, "{exit aborted }": 1, "{drop  NO_SOCKET}": 2}, got); diff != "" {
		t.Error(diff)
	}
}

// The flight recorder keeps the reason for which a packet was dropped.
func TestStackDropsRecorded(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{Addresses: true})
	for _, test := range []struct {
		trigger string
		want    int  // packets for NO_SOCKET in the file
		isRate  bool // more packets are sent until two arrive within a second, so the file may have more
	}{
		{"udp port 10", 2, false},
		{"reason:NO_SOCKET", 1, false},
		{"reason:tcp_csum,no_socket>1/s", 2, true},
	} {
		file := systest.TempFile(t)
		p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "--drops", "--ring", "1M", "-w", file, "--trigger", test.trigger, "udp")
		systest.SendClosed(t, pair, 9, 10)
		written := strings.TrimSuffix(file, filepath.Ext(file)) + "-1" + filepath.Ext(file)
		if test.isRate {
			testnet.WaitFor(t, written, func() bool {
				systest.SendClosed(t, pair, 9)
				return systest.FileSize(written) > 0
			})
		}
		said := systest.WaitForFile(t, p, written)
		p.Interrupt()
		lines := systest.MustRead(t, written)
		packets := strings.Count(lines, "@drop[NO_SOCKET "+testnet.NoSocketFunction()+"]")
		if packets < test.want || packets > test.want && !test.isRate || !strings.Contains(said, "recorded because of: "+test.trigger+", at ") {
			t.Errorf("%s: %s: %s", test.trigger, said, lines)
		}
	}
}

// A collector of sFlow gets each packet that the stack drops, with the equivalent reason of sFlow's
// list and the kernel's own name for it. It gets the same from the file.
func TestStackDropsSFlow(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{Addresses: true})
	systest.InRx(t, pair, func(netlink.Link) error { return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0) })
	closed, onward, martian := testnet.TxToRx(), testnet.TxToRx(), testnet.TxToRx()
	onward.Dst.IPv4 = net.IP{192, 0, 2, 77}
	martian.Src.IPv4 = net.IP{127, 0, 0, 1}
	frames := [][]byte{
		closed.UDP(1000, 9, make([]byte, 100)),
		lastHop(onward.UDP(1000, 9, make([]byte, 200))),
		martian.UDP(1000, 9, make([]byte, 300)),
	}
	live, later := systest.ListenSFlow(t, pair.Rx), systest.ListenSFlow(t, pair.Rx)
	file := systest.TempFile(t)
	p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "--drops", "-w", "sflow://"+live.Address, "-w", file, "--json", "udp and dst net 192.0.2.0/24")
	sender := testnet.MustSender(t, pair)
	for _, f := range frames {
		testnet.Must(t, sender.Send(f))
	}
	testnet.WaitHandled(t)
	s := systest.Account(t, p.Interrupt())
	if s.Captured != 3 || s.Seen != s.FilteredOut+3 || s.Outputs[0].Captured != 3 || s.Outputs[0].SFlow.DiscardedSamples != 3 || s.Outputs[0].SFlow.FlowSamples != 0 {
		t.Errorf("summary %+v, outputs %+v", s.AccountKeys, s.Outputs)
	}
	if out, err := systest.RunIn(t, pair.Rx, systest.Command("read", "-q", "-w", "sflow://"+later.Address, file)); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	index := systest.InterfaceIndex(t, pair)
	for name, got := range map[string][]systest.SflowDatagram{"live": live.Read(t), "read": later.Read(t)} {
		if flows := systest.SamplesOf(got, systest.FlowSample); len(flows) != 0 {
			t.Errorf("%s: %d flow samples", name, len(flows))
		}
		discards := systest.SamplesOf(got, systest.DiscardedSample)
		for i, want := range []systest.SflowSample{
			{Reason: 3, Texts: testnet.NoSocketFunction() + " NO_SOCKET"},
			{Reason: 257, Texts: "ip_forward IP_INHDR"},
			{Reason: 256},
		} {
			if i >= len(discards) {
				t.Fatalf("%s: %d discarded packets", name, len(discards))
			}
			want.Kind, want.Sequence, want.Counters = systest.DiscardedSample, uint32(i+1), map[uint32]int{}
			want.Header, want.FrameLength, want.Stripped = frames[i][:128], uint32(len(frames[i])+4), 4
			if want.SourceIndex = index; name == "read" { // which has no interfaces of this machine
				want.SourceIndex = discards[i].SourceIndex
			}
			if want.Texts == "" { // which depends on the kernel
				want.Texts = discards[i].Texts
			}
			if diff := cmp.Diff(want, discards[i], cmp.AllowUnexported(systest.SflowSample{})); diff != "" {
				t.Errorf("%s: discarded packet %d (-want +got):\n%s", name, i, diff)
			}
		}
	}
}

// lastHop turns an IPv4 frame with a TTL of 64 into one that must not be forwarded.
func lastHop(frame []byte) []byte {
	const ttl, sum = 14 + 8, 14 + 10
	less := frame[ttl] - 1
	frame[ttl] = 1
	corrected := uint32(binary.BigEndian.Uint16(frame[sum:])) + uint32(less)<<8
	binary.BigEndian.PutUint16(frame[sum:], uint16(corrected+corrected>>16))
	return frame
}

// Contradicting flags are refused in one line, as is a reason that the kernel does not have, and a
// user without the capabilities.
func TestStackDropsMistakes(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	systest.CheckRefused(t, pair, map[string]string{
		"drops --flows -1":                                           "xdpcap: --flows -1: must be 0 or more\n",
		"-i lo --reason NO_SOCKET":                                   "--reason chooses among the packets that the stack throws away, or that an XDP program drops: add --drops or --reason-map",
		"-i lo --drops --reason no_soket":                            `reason "no_soket": this kernel has none of that name: did you mean NO_SOCKET?`,
		"-i lo --drops --reason=":                                    "--reason: the list is empty",
		"-i lo --drops -Q out":                                       "--drops and --direction: this flag is for packets at the interface, not for those that the stack throws away: omit it, or --drops",
		"-i lo --drops --sink":                                       "--drops and --sink: this flag is for packets at the interface",
		"-i lo --drops --verdict drop":                               "--drops and --verdict: this flag is for packets at the interface",
		"-i lo --drops --slower-than 5us":                            "--drops and --slower-than: this flag is for packets at the interface",
		"-i lo --drops --stats":                                      "--drops and --stats: this flag is for packets at the interface",
		"-i any --drops -i lo":                                       "--drops takes the packets of named interfaces, each with its own -i, or of all together: -i any alone",
		"-i any --drops --except lo":                                 "--drops -i any and --except: this flag is for named interfaces",
		"-i lo --drops --sample drop=1":                              "--sample drop=1",
		"-i lo --drops -j adapter":                                   "--drops and -j adapter: the stack does not know the card's stamps",
		"-i lo --ring 1M -w x --trigger reason:NO_SOCKET":            "--trigger reason is about packets that the stack throws away: add --drops",
		"-i lo --drops --ring 1M -w x --trigger reason:no_soket>5/s": `--trigger: reason:no_soket>5/s: reason "no_soket": this kernel has none of that name: did you mean NO_SOCKET?`,
		"-i lo --drops --ring 1M -w x --trigger drop":                "--drops and --trigger: packets that the stack throws away have no verdict",
		"-i lo --drops --ring 1M -w x --trigger slower:5us":          "--drops and --trigger: packets that the stack throws away have no run time",
	})
	status, stderr := systest.StartCommand(t, pair.Rx, nil, systest.As(t, systest.XdpcapPath, nil, "-i", pair.RxName, "--drops", "-c", "1")).Wait()
	systest.OneLine(t, status, stderr, "missing privileges: CAP_BPF, ")
}
