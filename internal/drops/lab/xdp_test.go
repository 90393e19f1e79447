package lab

import (
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// load loads a program.
func (l *lab) load(kind ebpf.ProgramType, code asm.Instructions) *ebpf.Program {
	l.Helper()
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "loses", Type: kind, License: "GPL", Instructions: append(code, asm.Return())})
	l.must(err)
	l.Cleanup(func() { program.Close() })
	return program
}

// attach runs an XDP program on the receiving interface.
func (l *lab) attach(code asm.Instructions, mode link.XDPAttachFlags) {
	l.Helper()
	program := l.load(ebpf.XDP, code)
	l.must(l.Rx.Do(func() error {
		attached, err := link.AttachXDP(link.XDPOptions{Program: program, Interface: l.RxIndex, Flags: mode})
		if err == nil {
			l.Cleanup(func() { attached.Close() })
		}
		return err
	}))
}

// runs is a cause for which an XDP program loses all packets.
func runs(mode link.XDPAttachFlags, code func(*lab) asm.Instructions) func(*lab) uint64 {
	return func(l *lab) uint64 {
		l.Helper()
		l.attach(code(l), mode)
		return sends(packet{})(l)
	}
}

func returns(verdict int32) func(*lab) asm.Instructions {
	return func(*lab) asm.Instructions { return asm.Instructions{asm.Mov.Imm(asm.R0, verdict)} }
}

// redirects is a program that sends packets to an interface.
func redirects(index int) asm.Instructions {
	return asm.Instructions{asm.Mov.Imm(asm.R1, int32(index)), asm.Mov.Imm(asm.R2, 0), asm.FnRedirect.Call()}
}

// entry is a program that sends packets to the first entry of a map, which is made of a value, or
// has none if that is nil.
func (l *lab) entry(kind ebpf.MapType, value any) asm.Instructions {
	l.Helper()
	all, err := ebpf.NewMap(&ebpf.MapSpec{Name: "targets", Type: kind, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	l.must(err)
	l.Cleanup(func() { all.Close() })
	if value != nil {
		l.must(all.Put(uint32(0), value))
	}
	return asm.Instructions{asm.LoadMapPtr(asm.R1, all.FD()), asm.Mov.Imm(asm.R2, 0), asm.Mov.Imm(asm.R3, 0), asm.FnRedirectMap.Call()}
}

// addVeth adds a pair of interfaces to the receiving side, and returns the index of one. Nobody
// polls at the other one.
func (l *lab) addVeth(up bool) (index int) {
	l.Helper()
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "side0"}, PeerName: "side1"}
	l.must(l.Rx.Do(func() error {
		l.must(netlink.LinkAdd(veth))
		if !up {
			return nil
		}
		peer, err := netlink.LinkByName("side1")
		l.must(err)
		l.must(netlink.LinkSetUp(peer))
		return netlink.LinkSetUp(veth)
	}))
	return veth.Index
}

// addPolled adds an interface that is down, but would take what XDP sends to it.
func (l *lab) addPolled() (index int) {
	l.Helper()
	index = l.addVeth(false)
	program := l.load(ebpf.XDP, asm.Instructions{asm.Mov.Imm(asm.R0, int32(xdp.Pass))})
	l.must(l.Rx.Do(func() error {
		peer, err := netlink.LinkByName("side1")
		l.must(err)
		return netlink.LinkSetXdpFdWithFlags(peer, program.FD(), int(native))
	}))
	return index
}

const (
	native  = link.XDPDriverMode
	generic = link.XDPGenericMode
)

var ofXDP = []cause{
	{name: "XDP: drop", do: runs(native, returns(int32(xdp.Drop))), found: "XDP drop *", advice: "the program decided so"},
	{name: "XDP: aborted", do: runs(native, returns(int32(xdp.Aborted))), found: "XDP aborted *", advice: "the program failed", culprit: "program loses"},
	{name: "XDP: verdict that does not exist", do: runs(native, returns(77)), found: "XDP unknown *", advice: "does not know", culprit: "program loses"},
	{name: "XDP: map without an entry", do: runs(native, func(l *lab) asm.Instructions { return l.entry(ebpf.DevMap, nil) }), found: "XDP aborted *", advice: "the program failed", culprit: "program loses"},
	{name: "XDP: redirected to an interface that is down", do: runs(native, func(l *lab) asm.Instructions { return redirects(l.addPolled()) }), found: "XDP redirect: *", device: "side0", advice: "the target is down"},
	{name: "XDP: redirected to a veth that does not poll", do: runs(native, func(l *lab) asm.Instructions { return redirects(l.addVeth(true)) }), found: "XDP redirect: operation not supported *|XDP devmap: *", device: "side0", advice: "gro on"},
	{name: "XDP: redirected to an interface that is not there", do: runs(native, func(*lab) asm.Instructions { return redirects(99_999) }), found: "XDP redirect: *", advice: "monitor"},
	{name: "generic XDP: drop", do: runs(generic, returns(int32(xdp.Drop))), found: "XDP drop *", advice: "the program decided so"},
	{name: "generic XDP: aborted", do: runs(generic, returns(int32(xdp.Aborted))), found: "XDP aborted *", advice: "the program failed", culprit: "program loses"},
	{name: "generic XDP: redirected to an interface that is down", do: runs(generic, func(l *lab) asm.Instructions { return redirects(l.addVeth(false)) }), found: "XDP redirect: *", device: "side0", advice: "the target is down"},
}
