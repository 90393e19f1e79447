package capture_test

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/attach"
	"github.com/xdpcap/xdpcap/internal/tc"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// At ingress each packet is seen that tc redirects to the interface, by whatever function, although
// few of these pass XDP there. A container's interface is such a target.
func TestRedirectedByTC(t *testing.T) {
	t.Parallel()
	to := func(index int, flags int32, f asm.BuiltinFunc) asm.Instructions {
		return asm.Instructions{
			asm.Mov.Imm(asm.R1, int32(index)), asm.Mov.Imm(asm.R2, flags), f.Call(), asm.Return(),
		}
	}
	const ingress = 1 // BPF_F_INGRESS
	for _, test := range []struct {
		name    string
		program func(index int) asm.Instructions
		atPeer  bool // the packets are received at the other end of the pair
		counted bool // the interface counts them as received
	}{
		{"redirect", func(index int) asm.Instructions { return to(index, 0, asm.FnRedirect) }, true, true},
		{"redirect to ingress", func(index int) asm.Instructions { return to(index, ingress, asm.FnRedirect) }, false, false},
		{"redirect to the peer", func(index int) asm.Instructions { return to(index, 0, asm.FnRedirectPeer) }, true, true},
		{"clone", func(index int) asm.Instructions {
			return asm.Instructions{
				asm.Mov.Imm(asm.R2, int32(index)), asm.Mov.Imm(asm.R3, 0), asm.FnCloneRedirect.Call(),
				asm.Mov.Imm(asm.R0, 2), asm.Return(), // TC_ACT_SHOT
			}
		}, true, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			pair := testnet.MustPair(t, testnet.PairOptions{})
			inside, err := testnet.NewNamespace()
			capture.Must(t, err)
			t.Cleanup(func() { inside.Close() })
			var from xdp.Interface
			var index int
			capture.Must(t, pair.Rx.Do(func() (err error) {
				if from, err = xdp.EthernetInterface(pair.RxName); err != nil {
					return err
				}
				a := netlink.NewLinkAttrs()
				a.Name = "outside"
				capture.Must(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: a, PeerName: "inside"}))
				peer, err := netlink.LinkByName("inside")
				capture.Must(t, err)
				capture.Must(t, inside.MoveHere(peer))
				l, err := netlink.LinkByName("outside")
				capture.Must(t, err)
				index = l.Attrs().Index
				return netlink.LinkSetUp(l)
			}))
			capture.Must(t, inside.Do(func() error {
				l, err := netlink.LinkByName("inside")
				capture.Must(t, err)
				return netlink.LinkSetUp(l)
			}))
			prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL", Instructions: test.program(index)})
			capture.Must(t, err)
			t.Cleanup(func() { prog.Close() })
			capture.Must(t, pair.Rx.Do(func() error {
				a, err := attach.TC(from, prog, tc.Ingress)
				if err == nil {
					t.Cleanup(func() { a.Close() })
				}
				return err
			}))
			ns, name := pair.Rx, "outside"
			if test.atPeer {
				ns, name = inside, "inside"
			}
			open := func(o capture.Options) (s *capture.Session) {
				capture.Must(t, ns.Do(func() (err error) { s, err = capture.Open(o); return err }))
				return s
			}
			o := capture.Options{Interfaces: []string{name}, At: capture.AtIngress}
			s := open(o)
			defer s.Close()
			var notices []string
			o.At, o.Notice = capture.AtXDP, func(err error) { notices = append(notices, err.Error()) }
			atXDP := open(o)
			defer atXDP.Close()
			const n = 20
			for i := range n {
				testnet.Send(t, pair, testnet.UDPFrame(100, uint64(i)))
			}
			testnet.WaitFor(t, "the packets", func() bool {
				accounts, err := s.Accounts()
				return err != nil || accounts.Total().Seen >= n
			})
			for _, s := range []*capture.Session{s, atXDP} {
				s.Stop()
				for _, err := range s.Packets(t.Context()) {
					capture.Must(t, err)
				}
			}
			accounts, err := s.Accounts()
			capture.Must(t, err)
			if a := accounts.Total(); a.Seen != n || a.Captured != n {
				t.Errorf("%s", a.Equation())
			}
			accounts, err = atXDP.Accounts()
			capture.Must(t, err)
			if seen, by := accounts.Total().Seen, accounts.Total().PassedBy; test.counted && seen+by != n || by > 0 != (len(notices) == 1) {
				t.Errorf("at XDP %d packets are seen and %d passed by: %q", seen, by, notices)
			}
		})
	}
}

// At ingress a tag that is beside the packet is put back, as the packet came.
func TestIngressTag(t *testing.T) {
	t.Parallel()
	eachTransport(t, func(t *testing.T, transport capture.Transport) {
		pair := testnet.MustPair(t, testnet.PairOptions{})
		var s *capture.Session
		capture.Must(t, pair.Rx.Do(func() (err error) {
			s, err = capture.Open(capture.Options{Interfaces: []string{pair.RxName}, At: capture.AtIngress, Transport: transport, Filter: "vlan 7 and udp"})
			return err
		}))
		defer s.Close()
		plain := testnet.UDPFrame(100, 1)
		tagged := append(append(append([]byte(nil), plain[:12]...), 0x81, 0, 0, 7), plain[12:]...)
		testnet.Send(t, pair, tagged, plain)
		testnet.WaitFor(t, "the packets", func() bool {
			accounts, err := s.Accounts()
			return err != nil || accounts.Total().Seen >= 2
		})
		s.Stop()
		n := 0
		for p, err := range s.Packets(t.Context()) {
			capture.Must(t, err)
			n++
			capture.Same(t, tagged, p.Data)
			if int(p.WireLen) != len(tagged) {
				t.Errorf("%d bytes on the wire, want %d", p.WireLen, len(tagged))
			}
		}
		if n != 1 {
			t.Errorf("%d packets", n)
		}
	})
}

// Of all interfaces, AtAuto takes XDP where a program runs, an option needs XDP, or no program can
// be attached at tc, and tc at a veth.
func TestAtAuto(t *testing.T) {
	t.Parallel()
	besideIngress := capture.XDP // the qdisc ingress leaves no room for clsact
	if hasTCX(t) {
		besideIngress = capture.Ingress
	}
	for _, test := range []struct {
		name    string
		options capture.Options
		traced  bool
		bare    bool // a program without BTF runs, which no kernel can trace
		qdisc   bool // ingress
		want    capture.Hook
	}{
		{"veth", capture.Options{}, false, false, false, capture.Ingress},
		{"an option of XDP", capture.Options{Sink: true}, false, false, false, capture.XDP},
		{"a mode", capture.Options{Mode: capture.Native}, false, false, false, capture.XDP},
		{"a program", capture.Options{}, true, false, false, capture.Entry},
		{"a program that cannot be traced", capture.Options{}, false, true, false, capture.Ingress},
		{"another qdisc", capture.Options{}, false, false, true, besideIngress},
		{"patterns", capture.Options{Patterns: []string{"*"}, Except: []string{"lo"}}, false, false, false, capture.Ingress},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			pair := testnet.MustPair(t, testnet.PairOptions{})
			if test.traced {
				testnet.RequireFentry(t)
				target, err := testnet.AttachTarget(pair.Rx, pair.RxName, testnet.HookedFrags)
				capture.Must(t, err)
				defer target.Close()
			}
			if test.bare {
				r, err := testnet.AttachReceiver(pair.Rx, pair.RxName, xdp.Pass, testnet.ReceiverOptions{})
				capture.Must(t, err)
				defer r.Close()
			}
			o, noticed := test.options, ""
			o.Notice = func(err error) { noticed += err.Error() }
			if o.At = capture.AtAuto; o.Patterns == nil {
				o.Interfaces = []string{pair.RxName}
			}
			capture.Must(t, pair.Rx.Do(func() error {
				if test.qdisc {
					capture.Must(t, netlink.QdiscAdd(&netlink.Ingress{QdiscAttrs: netlink.QdiscAttrs{
						LinkIndex: pair.RxIndex, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_INGRESS}}))
				}
				s, err := capture.Open(o)
				if err != nil {
					return err
				}
				defer s.Close()
				capture.Same(t, test.want, s.Sources()[0].Hook)
				if told := strings.Contains(noticed, "is captured behind it, at tc ingress: XDP program receiver (id "); told != test.bare {
					t.Errorf("notices: %s", noticed)
				}
				return nil
			}))
		})
	}
}

// hasTCX reports whether the kernel attaches programs at tc without a qdisc.
func hasTCX(t *testing.T) bool {
	t.Helper()
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()}})
	capture.Must(t, err)
	defer prog.Close()
	kind, err := tc.Find(prog)
	capture.Must(t, err)
	return kind == tc.TCX
}
