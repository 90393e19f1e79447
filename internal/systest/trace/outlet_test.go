package trace_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// UDP destination ports that choose how redirecting_target of testdata/target.c sends a packet on.
const (
	backPort      = 1 + iota // XDP_TX
	indexPort                // to an interface, by its index
	devmapPort               // to that interface, by a devmap
	hashPort                 // to that interface, by a devmap with hashed keys
	namespacePort            // by a devmap to an interface of another network namespace
	broadcastPort            // to all interfaces of a devmap
	cpuPort                  // to a CPU
	unsaidPort               // XDP_REDIRECT, without a call that says where to
)

// attachRedirecting attaches the program to Rx of a pair until the test ends. It redirects to out's
// Rx, which is in the same namespace, or to elsewhere's Rx, which is in another one.
func attachRedirecting(t *testing.T, pair, out, elsewhere *testnet.Pair) {
	t.Helper()
	spec, err := testnet.TargetSpec()
	if err == nil {
		err = spec.Variables["outlet"].Set(uint32(out.RxIndex))
	}
	var objs struct {
		Prog    *ebpf.Program `ebpf:"redirecting_target"`
		Devices *ebpf.Map     `ebpf:"devices"`
		Hashed  *ebpf.Map     `ebpf:"hashed"`
		CPUs    *ebpf.Map     `ebpf:"cpus"`
	}
	if err == nil {
		err = spec.LoadAndAssign(&objs, nil)
	}
	testnet.Must(t, err)
	systest.InRx(t, pair, func(netlink.Link) error {
		l, err := link.AttachXDP(link.XDPOptions{Program: objs.Prog, Interface: pair.RxIndex, Flags: link.XDPDriverMode})
		if err != nil {
			return err
		}
		t.Cleanup(func() { l.Close() })
		return errors.Join(
			objs.Devices.Put(uint32(0), uint32(out.RxIndex)),
			objs.Hashed.Put(uint32(0), uint32(out.RxIndex)),
			objs.CPUs.Put(uint32(0), uint32(1))) // packets
	})
	err = elsewhere.Rx.Do(func() error { return objs.Devices.Put(uint32(1), uint32(elsewhere.RxIndex)) })
	if err := errors.Join(err, objs.Prog.Close(), objs.Devices.Close(), objs.Hashed.Close(), objs.CPUs.Close()); err != nil {
		t.Fatal(err) // the link keeps the program and its maps
	}
}

// If the program sends a packet out of one interface, line and file name that interface. If the
// packet goes elsewhere, or to several, they name no interface.
func TestOutlet(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	out := testnet.MustPair(t, testnet.PairOptions{Rx: pair.Rx, RxName: "out0", TxName: "outer0"})
	elsewhere := testnet.MustPair(t, testnet.PairOptions{})
	attachRedirecting(t, pair, out, elsewhere)
	ways := []struct {
		port    uint16
		verdict string
		to      string
	}{
		// The first packet is before any redirect call, and the last one after such calls.
		{unsaidPort, "redirect", ""},
		{backPort, "tx", "rx0"},
		{indexPort, "redirect", "out0"},
		{cpuPort, "redirect", ""},
		{devmapPort, "redirect", "out0"},
		{broadcastPort, "redirect", ""},
		{hashPort, "redirect", "out0"},
		{namespacePort, "redirect", fmt.Sprintf("interface %d of another network namespace", elsewhere.RxIndex)},
		{unsaidPort, "redirect", ""},
	}
	lines := systest.NewPipe(t)
	file := systest.TempFile(t)
	p := systest.Listening(t, pair.Rx, lines.In, "-i", pair.RxName, "--rx-capture", "exit", "--verdict", "tx,redirect",
		"-w", file, "--print", "-v", "--json")
	var frames [][]byte
	var want []string
	for _, way := range ways {
		frames = append(frames, testnet.TxToRx().UDP(1000, way.port, []byte("payload")))
		comment := ""
		if way.to != "" {
			comment = way.verdict + " to " + way.to
		}
		want = append(want, comment)
	}
	testnet.Send(t, pair, frames...)
	if s := systest.Account(t, p.Interrupt()); s.Captured != uint64(len(ways)) {
		t.Fatalf("summary %+v", s)
	}

	if diff := cmp.Diff(want, commentsIn(t, file)); diff != "" {
		t.Errorf("the file: %s", diff)
	}
	text := lines.Read(t)
	for i, way := range ways {
		origin := "[" + strings.ToUpper(way.verdict)
		if way.to != "" {
			origin += " to " + way.to
		}
		found := false
		if _, text, found = strings.Cut(text, "@exit"+origin+"] (queue 0"); !found {
			t.Errorf("no %s for packet %d: %s", origin, i, lines.Read(t))
		}
	}
}

// commentsIn returns each packet's comments, except the one with the program's run time.
func commentsIn(t *testing.T, path string) (comments []string) {
	t.Helper()
	for i, p := range systest.ReadTraced(t, path) {
		others := slices.DeleteFunc(slices.Clone(p.Comments), func(c string) bool { return strings.HasPrefix(c, "the program ran ") })
		if len(others) == len(p.Comments) {
			t.Errorf("packet %d does not say how long the program ran: %q", i, p.Comments)
		}
		comments = append(comments, strings.Join(others, "; "))
	}
	return comments
}
