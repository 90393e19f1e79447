package meter

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// The kernel makes a page pool for each run of live frames, and disconnects it at the end. The pool
// belongs to no interface. Other live frames on the machine count, too.
func TestMemDisconnect(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	n.attach(verdict(int32(xdp.Drop)))
	all, restricted := n.openAll(TracepointOptions{}), n.open(TracepointOptions{})
	testnet.Generate(t, n.pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(testnet.MinFrame, 0), Count: frames, CPU: -1})
	n.wait(all, func(c map[Case]EventCount) bool {
		return c[Case{Event: MemDisconnect, Memory: 2}].Events > 0
	})
	n.expect(restricted, map[Case]EventCount{})
}

// A driver with a page pool per receive queue connects new pools when a program is attached, and
// when it is detached. The pools that it then gives up count for the interface, because they were
// connected to it.
func TestMemConnect(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	ifi := pagePoolInterface(t)
	n := newNetwork(t)
	elsewhere := n.open(TracepointOptions{})
	all, err := OpenTracepoints(TracepointOptions{})
	must(t, err)
	defer all.Close()
	tp, err := OpenTracepoints(TracepointOptions{Interface: &ifi})
	must(t, err)
	defer tp.Close()
	queues, err := filepath.Glob("/sys/class/net/" + ifi.Name + "/queues/rx-*")
	if err != nil || len(queues) == 0 {
		t.Fatalf("receive queues %v, %v", queues, err)
	}
	each := uint64(len(queues))
	connect := Case{Event: MemConnect, Memory: 2, From: ifi.Name}
	disconnect := Case{Event: MemDisconnect, Memory: 2}

	l, err := link.AttachXDP(link.XDPOptions{
		Program:   n.load(verdict(int32(xdp.Pass)), ebpf.AttachXDP),
		Interface: ifi.Index,
		Flags:     link.XDPDriverMode,
	})
	must(t, err)
	n.expect(tp, map[Case]EventCount{connect: {Events: each}})
	must(t, l.Close())
	n.expect(tp, map[Case]EventCount{connect: {Events: 2 * each}, disconnect: {Events: each}})
	if got := n.totals(all)[connect]; got != (EventCount{Events: 2 * each}) {
		t.Errorf("of all interfaces: %+v", got)
	}
	n.expect(elsewhere, map[Case]EventCount{})
}

// pagePoolInterface returns the emulated machine's own interface, set up. On other machines the
// test is skipped.
func pagePoolInterface(t *testing.T) xdp.Interface {
	t.Helper()
	if !testnet.Emulated() {
		t.Skip("needs a vmxnet3 device for tests: the machine of make test-kernels has one")
	}
	var name unix.Utsname
	must(t, unix.Uname(&name))
	var major, minor int
	release := unix.ByteSliceToString(name.Release[:])
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil {
		t.Fatal(err)
	}
	if major < 6 || major == 6 && minor < 6 {
		t.Skipf("vmxnet3 has page pools and XDP since Linux 6.6, this is %s", release)
	}
	all, err := xdp.Interfaces()
	must(t, err)
	i := slices.IndexFunc(all, func(ifi xdp.Interface) bool { return ifi.Driver == "vmxnet3" })
	if i < 0 {
		t.Fatalf("no vmxnet3 device among %+v", all)
	}
	l, err := netlink.LinkByIndex(all[i].Index)
	must(t, err)
	must(t, netlink.LinkSetUp(l))
	t.Cleanup(func() { netlink.LinkSetDown(l) })
	return all[i]
}
