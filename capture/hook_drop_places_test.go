package capture_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// What an XDP program drops and what the stack throws away are in one order, each with its own
// account; packets that the program passes and that arrive are in neither. A program that cannot be
// traced is named in a notice.
func TestStackDropsOfProgram(t *testing.T) {
	t.Parallel()
	const each = 20
	untraced := testnet.ProbeFentry() != nil || xdp.CheckTracing() != nil
	sharedTransports(t, func(t *testing.T, transport capture.Transport) {
		d := newDropTest(t)
		target, err := testnet.AttachTarget(d.Rx, d.RxName, testnet.Hooked)
		d.must(err)
		defer target.Close()
		open, port := d.listen()
		d.must(open.SetReadBuffer(1 << 20))
		var notices []string
		d.begin(capture.Options{Transport: transport, Notice: func(err error) { notices = append(notices, err.Error()) }})
		if untraced {
			if len(notices) != 1 || !strings.HasPrefix(notices[0], "what XDP program hooked_target (id ") || len(d.session.Sources()) != 1 {
				t.Errorf("notices %q, sources %v", notices, d.session.Sources())
			}
			return
		}
		for range each {
			for _, at := range []uint16{testnet.DropPort, testnet.AbortPort, 99, port} {
				d.send(testnet.TxToRx(), at, 1)
			}
		}
		testnet.WaitFor(t, "all lost packets", func() bool {
			accounts := d.accounts()
			return accounts[0].Matched() == 2*each && accounts[2].Matched() == each
		})
		d.session.Stop()
		description := d.session.Description()
		got, last := make(map[string]int), int64(0)
		for p, err := range d.session.Packets(t.Context()) {
			d.must(err)
			cause, _ := description.CauseNames(p.Source, p.Facts)
			if verdict, known := description.Sources[p.Source].VerdictOf(p); known {
				cause = fmt.Sprint(verdict)
			}
			got[cause]++
			if p.Time < last {
				t.Errorf("a packet of %v comes after one of %v", p.Time, last)
			}
			last = p.Time
		}
		same(t, map[string]int{"drop": each, "aborted": each, "NO_SOCKET": each}, got)
		accounts := d.accounts()
		for i, lost := range []uint64{2 * each, 0, each} { // the answers to ARP pass the program, too
			if a := accounts[i]; a.Captured != lost || a.Seen != a.FilteredOut+lost {
				t.Errorf("%s: %+v, want %d captured", d.session.Sources()[i].Label(), a, lost)
			}
		}
		if len(notices) > 0 {
			t.Errorf("notices %q", notices)
		}
	})
}

// What a program drops while another record of its CPU is being written goes by perf's ring: an
// interrupt brings packets while the stack throws one away for a process.
func TestStackDropsOfProgramInterrupted(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	const n = 20
	d := newDropTest(t)
	target, err := testnet.AttachTarget(d.Rx, d.RxName, testnet.Hooked)
	d.must(err)
	defer target.Close()
	d.begin(capture.Options{Transport: capture.TransportRing})
	d.session.SetFilling(d.T, 1)
	d.send(testnet.TxToRx(), testnet.DropPort, n)
	d.await(n, 0)
	d.session.SetFilling(d.T, 0)
	if packets, account := d.end(n, 0); len(packets) != n || account.Lost != 0 {
		t.Errorf("%d packets: %+v", len(packets), account)
	}
}

// A packet that the kernel fails to redirect is captured with the error and the function, in native
// and in generic mode, and cut after its headers; those that the program passes are not.
func TestStackDropsRedirect(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	const n = 20
	for mode, flags := range map[string]link.XDPAttachFlags{"native": link.XDPDriverMode, "generic": link.XDPGenericMode} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			d := newDropTest(t)
			var attached link.Link
			d.onRx(func() (err error) {
				prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "redirects", Type: ebpf.XDP, License: "GPL", Instructions: redirecting(1 << 30)})
				if err != nil {
					return err
				}
				defer prog.Close()
				attached, err = link.AttachXDP(link.XDPOptions{Program: prog, Interface: d.RxIndex, Flags: flags})
				return err
			})
			defer attached.Close()
			d.begin(capture.Options{HeadersOnly: true, Payload: 10})
			want := make(map[string]int)
			for _, frame := range d.send(testnet.TxToRx(), testnet.DropPort, n) {
				want[string(frame[:14+20+8+10])]++
			}
			d.send(testnet.TxToRx(), 99, n)
			testnet.WaitFor(t, "all lost packets", func() bool {
				accounts := d.accounts()
				return accounts[1].Matched() == n && accounts[2].Matched() == n
			})
			d.session.Stop()
			description := d.session.Description()
			for p, err := range d.session.Packets(t.Context()) {
				d.must(err)
				src := &description.Sources[p.Source]
				if src.Hook != capture.FailedRedirect {
					continue
				}
				reason, location := description.CauseNames(p.Source, p.Facts)
				if verdict, known := src.VerdictOf(p); !known || verdict != capture.Redirect || reason != "EINVAL" || !strings.HasPrefix(location, "xdp_do_") {
					t.Errorf("%v for %s in %s", verdict, reason, location)
				}
				want[string(p.Data)]--
			}
			for frame, left := range want {
				if left != 0 {
					t.Errorf("%d of %x were not captured", left, frame)
				}
			}
			if a := d.accounts()[1]; a.Seen != n || a.Captured != n {
				t.Errorf("account %+v", a)
			}
		})
	}
}

// redirecting is a program that redirects UDP packets to DropPort to an interface, and passes all
// others. It has a function's type, so that it can be traced.
func redirecting(ifindex int32) asm.Instructions {
	main := &btf.Func{Name: "redirects", Linkage: btf.GlobalFunc, Type: &btf.FuncProto{
		Return: &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed},
		Params: []btf.FuncParam{{Name: "ctx", Type: &btf.Pointer{Target: &btf.Struct{Name: "xdp_md"}}}},
	}}
	const portAt = 14 + 20 + 2 // Ethernet and IPv4 without options
	return asm.Instructions{
		btf.WithFuncMetadata(asm.LoadMem(asm.R2, asm.R1, 0, asm.Word), main),
		asm.LoadMem(asm.R3, asm.R1, 4, asm.Word),
		asm.Mov.Imm(asm.R0, int32(xdp.Pass)),
		asm.Mov.Reg(asm.R4, asm.R2),
		asm.Add.Imm(asm.R4, portAt+2),
		asm.JGT.Reg(asm.R4, asm.R3, "out"),
		asm.LoadMem(asm.R5, asm.R2, portAt, asm.Half),
		asm.JNE.Imm(asm.R5, testnet.DropPort<<8, "out"),
		asm.Mov.Imm(asm.R1, ifindex),
		asm.Mov.Imm(asm.R2, 0),
		asm.FnRedirect.Call(),
		asm.Return().WithSymbol("out"),
	}
}

// What is lost at a device above the interface is captured as the device had it: without the tag
// that a VLAN has taken.
func TestStackDropsAbove(t *testing.T) {
	t.Parallel()
	for _, upper := range testnet.Uppers {
		t.Run(upper.Name, func(t *testing.T) {
			t.Parallel()
			d := newDropTest(t)
			upper.MustAdd(t, d.Pair)
			d.expectAll(upper.Frame, testnet.TxToRx().UDP)
		})
	}
}

// The same holds of IPv6, and of network cards.
func TestStackDropsIPv6(t *testing.T) {
	t.Parallel()
	d := newDropTestOf(t, testnet.MustPair(t, testnet.PairOptions{IPv6: true}))
	d.expectAll(bytes.Clone, testnet.TxToRx().UDPv6)
}

func TestStackDropsOfCards(t *testing.T) {
	t.Parallel()
	d := newDropTestOf(t, testnet.MustCards(t, testnet.PairOptions{Addresses: true}))
	d.expectAll(bytes.Clone, testnet.TxToRx().UDP)
}

// expectAll sends packets to a closed port, and expects each of them once.
func (d *dropTest) expectAll(onWire func([]byte) []byte, packet func(from, to uint16, payload []byte) []byte) {
	const n = 20
	d.Helper()
	d.begin(capture.Options{Filter: "udp dst port 9999", Reasons: []string{"NO_SOCKET"}})
	want := make(map[string]int)
	for i := range n {
		b := packet(1000, 9999, bytes.Repeat([]byte{byte(i)}, 100))
		want[string(b)]++
		d.must(d.sender.Send(onWire(b)))
	}
	got := make(map[string]int)
	packets, _ := d.end(n, 0)
	for _, p := range packets {
		got[string(p.data)]++
	}
	same(d, want, got)
}
