package read_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/xdpcap/xdpcap/internal/pcapng"
	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// followedIn returns the packets of a file.
func followedIn(t *testing.T, args ...string) (all []systest.FollowKeys) {
	t.Helper()
	out, err := systest.Command(append([]string{"read", "--follow", "--json"}, args...)...).Output()
	if err != nil {
		t.Fatalf("read --follow: %v: %s", err, out)
	}
	d := json.NewDecoder(strings.NewReader(string(out)))
	for d.DisallowUnknownFields(); d.More(); {
		var k systest.FollowKeys
		if err := d.Decode(&k); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		all = append(all, k)
	}
	return all
}

// A router is a host that forwards packets from one interface, a, to another one, b.
type router struct {
	in, out *testnet.Pair
	way     testnet.Path // of forwarded packets
	lost    testnet.Path // of packets without a route
}

func newRouter(t *testing.T) *router {
	t.Helper()
	r := &router{in: testnet.MustPair(t, testnet.PairOptions{RxName: "a"}), way: testnet.TxToRx(), lost: testnet.TxToRx()}
	r.out = testnet.MustPair(t, testnet.PairOptions{Rx: r.in.Rx, RxName: "b", TxName: "far0"})
	r.way.Dst.IPv4, r.lost.Dst.IPv4 = net.IP{198, 51, 100, 1}, net.IP{203, 0, 113, 1}
	testnet.Must(t, r.in.Rx.Do(func() error {
		for _, setting := range []string{"ip_forward=1", "conf/all/rp_filter=0", "conf/a/rp_filter=0"} {
			name, value, _ := strings.Cut(setting, "=")
			if err := os.WriteFile("/proc/sys/net/ipv4/"+name, []byte(value), 0); err != nil {
				return err
			}
		}
		to := r.way.Dst.IPv4
		if err := netlink.NeighSet(&netlink.Neigh{
			LinkIndex: r.out.RxIndex, State: netlink.NUD_PERMANENT, IP: to, HardwareAddr: testnet.TxEndpoint.MAC,
		}); err != nil {
			return err
		}
		return netlink.RouteAdd(&netlink.Route{
			LinkIndex: r.out.RxIndex, Dst: &net.IPNet{IP: to, Mask: net.CIDRMask(32, 32)}, Scope: netlink.SCOPE_LINK,
		})
	}))
	return r
}

// send sends frames, and waits until this many of them have left the host.
func (r *router) send(t *testing.T, forwarded uint64, frames ...[]byte) {
	t.Helper()
	before := systest.SentBy(t, r.out)
	testnet.Send(t, r.in, frames...)
	testnet.WaitFor(t, "the frames to be forwarded", func() bool { return systest.SentBy(t, r.out) >= before+forwarded })
}

// ttlOf returns the time to live of an IPv4 packet.
func ttlOf(frame []byte) int { return int(frame[22]) }

// Each packet that a host forwards is one path, from its ingress to its egress interface, although
// its TTL has changed. Packets that the host drops have only their ingress.
func TestFollowForwarded(t *testing.T) {
	t.Parallel()
	r, file := newRouter(t), systest.TempFile(t)
	p := systest.Listening(t, r.in.Rx, nil, "-i", "a", "-i", "b", "-Q", "inout", "-w", file, "--json")
	lost := systest.TempFile(t)
	drops := systest.Listening(t, r.in.Rx, nil, "-i", "a", "--drops", "-w", lost)
	const each = 40
	var frames [][]byte
	for i := range each {
		data := binary.BigEndian.AppendUint32(nil, uint32(i))
		frames = append(frames,
			r.way.UDP(1000, 53, data), r.lost.UDP(1000, 53, data),
			r.way.TCP(testnet.Segment{SrcPort: 1000, DstPort: 80, Seq: uint32(i) * 4, Payload: data}))
	}
	r.send(t, 2*each, frames...)
	a := systest.Account(t, p.Interrupt())
	drops.Interrupt()
	records, _ := systest.ReadFile(t, file)
	ttls := make(map[int]int)
	for _, record := range records {
		ttls[ttlOf(record.Data)]++
	}
	if ttl := ttlOf(frames[0]); a.Captured != 5*each || ttls[ttl] != 3*each || ttls[ttl-1] != 2*each {
		t.Fatalf("%d packets in the file: by TTL %v", a.Captured, ttls)
	}
	found := make(map[string]int)
	for _, k := range followedIn(t, file) {
		first, last := k.Records[0], k.Records[len(k.Records)-1]
		to := "nowhere"
		if last.Hook == "egress" {
			to = last.Destination
		}
		found[k.Places()+" to "+to]++
		if k.Fits != 0 || k.AmbiguousAt != nil || first.After != 0 || last.After < 0 || first.Source != last.Source ||
			last.Time.Sub(first.Time).Nanoseconds() != last.After {
			t.Errorf("%+v", k)
		}
	}
	want := map[string]int{"a xdp, b egress to 198.51.100.1": 2 * each, "a xdp to nowhere": each}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("places of packets: %s", diff)
	}
	text := systest.MustRead(t, "--follow", file, "udp and dst host 198.51.100.1")
	line := regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d\.\d{6} a IP 192\.0\.2\.1\.1000 > 198\.51\.100\.1\.53: .*\n +\+\d+\.\d{3} us b@egress$`)
	if n := len(line.FindAllString(text, -1)); n != each || strings.Count(text, "\n") != 2*each {
		t.Errorf("%d packets: %s", n, text)
	}
	for line := range strings.Lines(text) {
		if len(line) > 100 {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
	if n := len(followedIn(t, "-c", "7", file, "udp")); n != 7 {
		t.Errorf("-c 7: %d packets", n)
	}
	if n := len(followedIn(t, file, "tcp")); n != each {
		t.Errorf("a filter: %d packets", n)
	}
	// The packets that the stack dropped are in another file, whose stamps may differ a little.
	thrown := 0
	for _, k := range followedIn(t, file, lost, "dst host 203.0.113.1") {
		hooks := []string{k.Records[0].Hook, k.Records[len(k.Records)-1].Hook}
		if slices.Sort(hooks); len(k.Records) == 2 && slices.Equal(hooks, []string{"drop", "xdp"}) {
			thrown++
		}
	}
	if thrown != each {
		t.Errorf("%d packets of %d were followed to where the stack threw them away", thrown, each)
	}
	// The directions as two files give the same paths.
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in.pcapng"), filepath.Join(dir, "out.pcapng")
	systest.MustRead(t, "-w", in, file, "inbound")
	systest.MustRead(t, "-w", out, file, "outbound")
	joined := 0
	for _, k := range followedIn(t, out, in) {
		if len(k.Records) == 2 && k.Records[0].File == in && k.Records[1].File == out {
			joined++
		}
	}
	if joined != 2*each {
		t.Errorf("two files: %d packets of %d", joined, 2*each)
	}
}

// If programs are traced, a packet's path goes from the entry of one through its exit, with the
// verdict, to the interface that sends it.
func TestFollowTraced(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	r, file := newRouter(t), systest.TempFile(t)
	target, err := testnet.AttachTarget(r.in.Rx, "a", testnet.Hooked)
	testnet.Must(t, err)
	defer target.Close()
	testnet.Must(t, target.AttachAlso(r.in.Rx, "b"))
	p := systest.Listening(t, r.in.Rx, nil, "-i", "a", "-i", "b", "--rx-capture", "entry,exit", "-Q", "inout", "-w", file)
	const packets = 10
	var frames [][]byte
	for range packets { // identical packets
		frames = append(frames, r.way.UDP(1000, 53, []byte("the same")))
	}
	for i := range packets {
		frames = append(frames, r.way.UDP(1000, 53, fmt.Append(nil, "number ", i)))
	}
	r.send(t, 2*packets, frames...)
	p.Interrupt()
	found := make(map[string]int)
	for _, k := range followedIn(t, file) {
		if k.Fits > 0 || len(k.AmbiguousAt) > 0 {
			continue // one of the identical packets
		}
		found[k.Places()]++
	}
	if n := found["a entry, a exit pass, b egress"]; n < packets {
		t.Errorf("%d packets were followed: %v", n, found)
	}
}

// A packet that fits several packets is printed as ambiguous, and joined to none of them.
func TestFollowAmbiguous(t *testing.T) {
	t.Parallel()
	b := pcapng.AppendSection(nil, &pcapng.Section{})
	for _, name := range []string{"a", "b@egress"} {
		b = pcapng.AppendInterface(b, &pcapng.Interface{Name: name, LinkType: pcapng.Ethernet})
	}
	frame := testnet.TxToRx().UDPv6(1000, 53, []byte("the same"))
	for i, seen := range []uint32{0, 0, 1} {
		b = pcapng.AppendPacket(b, &pcapng.Packet{Interface: seen, Time: 1e9 + 1500*uint64(i), Data: frame, WireLen: uint32(len(frame))})
	}
	file := writeBytes(t, b)
	got := systest.MustRead(t, "--follow", "-q", file)
	const line = " IP6 2001:db8::1.1000 > 2001:db8::2.53: UDP, length 8\n"
	want := "00:00:01.000000 a" + line + "     ambiguous: b@egress\n" +
		"00:00:01.000001 a" + line + "     ambiguous: b@egress\n" +
		"00:00:01.000003 b@egress" + line + "     ambiguous: fits 2 packets\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	objects := followedIn(t, file)
	if len(objects) != 3 || !cmp.Equal(objects[0].AmbiguousAt, []string{"b@egress"}) || objects[2].Fits != 2 || objects[2].AmbiguousAt != nil {
		t.Errorf("%+v", objects)
	}
}
