package capture_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

const nativeFlag, onlyFirst = 1 << 2, 1 << 0 // XDP_FLAGS_DRV_MODE, XDP_FLAGS_UPDATE_IF_NOEXIST

func attachLink(flags link.XDPAttachFlags) func(*testing.T, netlink.Link, *ebpf.Program) error {
	return func(t *testing.T, l netlink.Link, p *ebpf.Program) error {
		held, err := link.AttachXDP(link.XDPOptions{Program: p, Interface: l.Attrs().Index, Flags: flags})
		if err == nil {
			t.Cleanup(func() { held.Close() })
		}
		return err
	}
}

// attachNetlink does what `ip link set dev rx0 xdp` does.
func attachNetlink(_ *testing.T, l netlink.Link, p *ebpf.Program) error {
	return netlink.LinkSetXdpFdWithFlags(l, p.FD(), nativeFlag|onlyFirst)
}

// With --give-way others can attach an XDP program, by a link in either mode or by netlink: the
// first attempt is refused, a later one succeeds. Every packet is in an account, in the file, or
// among those that passed by while no program was attached.
func TestGiveWay(t *testing.T) {
	t.Parallel()
	traced := testnet.ProbeFentry() == nil
	for _, test := range []struct {
		name   string
		mode   string // of the capture
		attach func(*testing.T, netlink.Link, *ebpf.Program) error
	}{
		{"link", "native", attachLink(link.XDPDriverMode)},
		{"other mode", "native", attachLink(link.XDPGenericMode)},
		{"netlink", "auto", attachNetlink},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			pair := testnet.MustPair(t, testnet.PairOptions{})
			target, err := testnet.NewTarget(testnet.Hooked)
			testnet.Must(t, err)
			t.Cleanup(func() { target.Close() })
			file := systest.TempFile(t)
			p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "--at", "xdp", "--xdp-mode", test.mode, "--give-way", "-w", file, "--json", "-U")
			const numbered = 5
			systest.SendNumbered(t, pair, numbered, 100)

			busy := systest.Trickle(t, pair)
			began, tries := time.Now(), 0
			testnet.WaitFor(t, "the other program to be let in", func() bool {
				tries++
				systest.InRx(t, pair, func(l netlink.Link) error {
					err = test.attach(t, l, target.Program())
					return nil
				})
				return err == nil
			})
			t.Logf("let in after %v, at attempt %d", time.Since(began), tries)
			systest.WaitStderr(t, p, "rx0 gives way to an XDP program of ")
			last := "entry"
			if traced { // at once if the program was quicker, or after a time at tc ingress
				systest.WaitStderr(t, p, "rx0 is captured again, rx0:hooked_target@fentry, after ")
			} else {
				last = "ingress"
				systest.WaitStderr(t, p, "rx0 is captured again, rx0@ingress, after ")
				systest.WaitStderr(t, p, "stays captured at tc ingress: this kernel refuses fentry")
			}
			busy()
			systest.SendNumbered(t, pair, numbered, 100)
			gaps := regexp.MustCompile(`received at least (\d+) packets`).FindAllStringSubmatch(p.Stderr(), -1)
			var passed uint64
			for _, m := range gaps {
				n, _ := strconv.ParseUint(m[1], 10, 64)
				passed += n
			}
			s := systest.Account(t, p.Interrupt())
			packets, _ := systest.ReadFile(t, file)
			inFile := 0
			for _, one := range packets {
				if one.CI.Length == 100 {
					inFile++
				}
			}
			if s.Captured != s.Seen || int(s.Captured) != len(packets) || inFile != 2*numbered {
				t.Errorf("%d and %d packets in the file, %+v", inFile, len(packets), s.AccountKeys)
			}
			if first, end := s.Interfaces[0], s.Interfaces[len(s.Interfaces)-1]; first.Hook != "xdp" || !first.Gone || end.Hook != last || end.Gone {
				t.Errorf("interfaces %+v", s.Interfaces)
			}
			// How many pass by is up to the scheduler: TestGap has the numbers.
			var received uint64
			systest.InRx(t, pair, func(l netlink.Link) error {
				received = l.Attrs().Statistics.RxPackets
				return nil
			})
			if len(gaps) == 0 || s.PassedBy < passed || s.Seen+passed > received {
				t.Errorf("%d packets of %d passed by, %d while no program was attached: %s", s.PassedBy, received, passed, p.Stderr())
			}
		})
	}
}

// A capture stays at XDP if nobody is in its way: at an attempt to detach its program, which is
// refused, too, and at one of another network namespace or, where the kernel tells that, of another
// interface. It gives way at an attempt to attach below its interface.
func TestGiveWayToOthersOnly(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{Addresses: true})
	apart := testnet.MustPair(t, testnet.PairOptions{})
	beside := testnet.MustPair(t, testnet.PairOptions{Rx: pair.Rx, RxName: "rx1", TxName: "tx1"})
	testnet.MustTarget(t, apart, testnet.Hooked)
	testnet.MustTarget(t, beside, testnet.Hooked)
	testnet.Uppers[1].MustAdd(t, pair) // br0
	p := systest.Listening(t, pair.Rx, nil, "-i", "br0", "-i", "late*", "--at", "xdp", "--give-way",
		"-w", systest.TempFile(t), "--json")
	program := testnet.MustPassing(t, "another")
	attempt := func(pair *testnet.Pair) {
		t.Helper()
		systest.InRx(t, pair, func(l netlink.Link) error {
			if err := attachNetlink(t, l, program); err == nil {
				t.Errorf("%s has let another program in", l.Attrs().Name)
			}
			return nil
		})
	}
	attempt(apart)
	tells := testnet.ProbeFentry() == nil
	if tells {
		attempt(beside)
		testnet.Must(t, pair.Rx.Do(func() error {
			bridge, err := netlink.LinkByName("br0")
			if err == nil && netlink.LinkSetXdpFdWithFlags(bridge, -1, 0) == nil {
				t.Error("the capture's program was detached")
			}
			return err
		}))
	}
	// By the time that it captures this interface it has handled what came before.
	testnet.MustPair(t, testnet.PairOptions{Rx: pair.Rx, RxName: "late0", TxName: "late-peer"})
	systest.WaitStderr(t, p, "late0 has come and is captured, too: XDP")
	if said := p.Stderr(); strings.Contains(said, "gives way") {
		t.Error(said)
	}
	attempt(pair)
	systest.WaitStderr(t, p, "br0 gives way to an XDP program of ")
	systest.WaitStderr(t, p, "br0 is captured again, br0@ingress, after ")
	if said := p.Stderr(); strings.Contains(said, "late0 gives way") == tells {
		t.Error(said)
	}
	systest.Account(t, p.Interrupt())
}
