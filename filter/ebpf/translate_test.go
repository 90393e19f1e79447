package ebpf

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/net/bpf"

	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
	"github.com/xdpcap/xdpcap/filter/internal/filtertest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// cases is how many random cases a test has. With -short they are a tenth, and a thirtieth on an
// emulated machine, which is slow.
func cases(tb testing.TB, normal int) int {
	tb.Helper()
	switch {
	case testnet.Emulated():
		normal /= 30
	case testing.Short():
		normal /= 10
	}
	return filtertest.Budget(tb, normal)
}

// TestKernel runs compiled expressions in the kernel and in the interpreter. It catches a wrong
// translation, and code that the verifier refuses.
func TestKernel(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	pkts, corners := filtertest.Truncations(filtertest.Packets(), 5), filtertest.Corners
	switch {
	case testnet.Emulated():
		pkts, corners = filtertest.Packets(), corners[:20]
	case testing.Short():
		pkts = filtertest.Truncations(filtertest.Packets(), 23)
	}
	corners = append([]string{"vxlan 5 and tcp port 22"}, corners...) // libpcap's tests have no vxlan
	matches := 0
	for seed, left := uint64(1e6), cases(t, 400); left > 0; seed++ {
		expr := filtertest.NewGrammar(seed).Expression(2)
		prog, err := filter.CompileRaw(expr, filter.Options{Netmask: filtertest.AnyMask})
		if err != nil {
			continue
		}
		left--
		matches += compareKernel(t, expr, prog, pkts)
	}
	if matches == 0 {
		t.Error("no expression matched any packet: the test compares zeros")
	}
	for _, expr := range corners {
		if prog, err := filter.CompileRaw(expr, filter.Options{Netmask: filtertest.AnyMask}); err == nil {
			compareKernel(t, expr, prog, pkts)
		}
	}
}

// randomProgram makes a valid classic program that no expression compiles to.
func randomProgram(r *rand.Rand) []bpf.RawInstruction {
	n := 1 + r.IntN(40)
	var ops []uint16
	for op := range uint16(256) {
		if cbpf.IsKnown(op) && op&cbpf.ClassMask != cbpf.ClassRET {
			ops = append(ops, op)
		}
	}
	prog := make([]bpf.RawInstruction, 0, n+1)
	for i := range n {
		left := n - i // instructions behind this one
		ins := bpf.RawInstruction{Op: ops[r.IntN(len(ops))]}
		ins.K = [...]uint32{r.Uint32(), r.Uint32N(64), r.Uint32N(4), 0x800, 0xffff - r.Uint32N(8), 0x7fff + r.Uint32N(2)}[r.IntN(6)]
		switch class, mode := ins.Op&cbpf.ClassMask, ins.Op&cbpf.ModeMask; {
		case class == cbpf.ClassST, class == cbpf.ClassSTX, class <= cbpf.ClassLDX && mode == cbpf.ModeMEM:
			ins.K = r.Uint32N(cbpf.ScratchWords)
		case class <= cbpf.ClassLDX && mode != cbpf.ModeIMM && r.IntN(8) > 0:
			ins.K = r.Uint32N(40)
		case class <= cbpf.ClassLDX && ins.K >= ancillaryFirst:
			ins.K >>= 16
		case class == cbpf.ClassALU && ins.Op&cbpf.SrcMask == cbpf.SrcK:
			if ins.K = max(ins.K, 1); ins.Op&cbpf.OpMask == cbpf.OpLsh || ins.Op&cbpf.OpMask == cbpf.OpRsh {
				ins.K &= 31
			}
		case ins.Op == cbpf.Ja:
			ins.K = r.Uint32N(uint32(left))
		case class == cbpf.ClassJMP:
			ins.Jt, ins.Jf = uint8(r.IntN(min(left, 6))), uint8(r.IntN(min(left, 6)))
		}
		if r.IntN(12) == 0 {
			ins = bpf.RawInstruction{Op: cbpf.RetA}
		}
		prog = append(prog, ins)
	}
	return append(prog, bpf.RawInstruction{Op: []uint16{cbpf.ClassRET, cbpf.RetA}[r.IntN(2)], K: r.Uint32()})
}

// TestRandomPrograms covers code that expressions never compile to: unreachable code, shifts by X,
// loads at any offset, and jumps to one target after checks of different packet lengths.
func TestRandomPrograms(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	pkts := filtertest.Truncations(filtertest.Packets(), 19)[:200]
	if testnet.Emulated() {
		pkts = pkts[:50]
	}
	matches := 0
	for seed := range uint64(cases(t, 1500)) {
		prog := randomProgram(rand.New(rand.NewPCG(seed, 3)))
		if err := filter.Check(prog); err != nil {
			t.Fatalf("seed %d: the generator is wrong: %v\n%s", seed, err, filter.Listing(prog))
		}
		matches += compareKernel(t, fmt.Sprint("seed ", seed), prog, pkts)
	}
	if matches == 0 {
		t.Error("no program returned anything but 0")
	}
}

// TestLargePacket reads around four bounds: the end of the packet, the end of its copy in the
// buffer, the largest offset in an instruction, and the largest offset that the verifier allows.
func TestLargePacket(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	pkt := make([]byte, 3000)
	for i := range pkt {
		pkt[i] = byte(i * 7)
	}
	for _, at := range []uint32{2990, 2996, 2997, 3000, bufferSize - 4, bufferSize - 3, bufferSize, 0x7ffe, 0x7fff, 0x8000, 0xfffb, 0xfffc, 0x10000, 0xfffffffe} {
		for _, mode := range []uint16{cbpf.ModeABS, cbpf.ModeIND} {
			prog := []bpf.RawInstruction{{Op: cbpf.LdxImm, K: 1}, {Op: cbpf.ClassLD | mode, K: at}, {Op: cbpf.ClassALU | cbpf.OpOr, K: 1}, {Op: cbpf.RetA}}
			compareKernel(t, fmt.Sprintf("offset %#x", at), prog, [][]byte{pkt, pkt[:2999]})
		}
	}
}

// TestManyHosts catches jumps that are too far for classic BPF's 8 bits or eBPF's 16, and a program
// too complex for the verifier.
func TestManyHosts(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	for _, test := range []struct {
		vlanAware bool
		hosts     int
		want      int // packets that match
	}{
		{false, 300, 7},
		{true, 300, 14},
		{true, 60, 4},
	} {
		if test.hosts == 300 && (testnet.Emulated() || testing.Short()) {
			continue // compiling and verifying takes a second each, and 10 to 20 on an emulated machine
		}
		start := time.Now()
		prog, err := filter.CompileRaw(filtertest.ManyHosts(test.hosts), filter.Options{VLANAware: test.vlanAware})
		if err != nil {
			t.Fatal(err)
		}
		pkts := filtertest.Packets()
		for _, i := range []int{0, 1, 150, 255, 256, 298, 299, 300} {
			ip := filtertest.IPv4Header(cbpf.IPUDP, fmt.Sprintf("10.%d.%d.7", i>>8, i&0xff), "1.1.1.1", 0, 0, filtertest.PortHeader(1, 2, 0))
			eth := filtertest.Eth(1, 2)
			pkts = append(pkts, filtertest.Frame(eth, filtertest.BE(cbpf.EtherIP), ip),
				filtertest.Frame(eth, filtertest.VLANTag(cbpf.Ether8021Q, 5), filtertest.BE(cbpf.EtherIP), ip))
		}
		if got := compareKernel(t, fmt.Sprintf("%+v", test), prog, pkts); got != test.want {
			t.Errorf("%+v: %d packets match", test, got)
		}
		t.Logf("%+v: %d instructions, %v", test, len(prog), time.Since(start))
	}
}

// TestLongestProgram catches a jump whose offset does not fit.
func TestLongestProgram(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	prog := []bpf.RawInstruction{{Op: cbpf.LdxMsh, K: 14}}
	for len(prog) < cbpf.MaxInstructions-1 {
		prog = append(prog, bpf.RawInstruction{Op: cbpf.LdInd | cbpf.SizeH, K: uint32(len(prog)) % 20})
	}
	pkts := filtertest.Packets()
	if testnet.Emulated() {
		pkts = pkts[:10]
	}
	compareKernel(t, "4096 instructions", append(prog, bpf.RawInstruction{Op: cbpf.RetA}), pkts)
}

// TestTranslateRefuses catches the translation of a load that means something else on a socket than
// at XDP, and of one for a buffer that a load cannot address.
func TestTranslateRefuses(t *testing.T) {
	t.Parallel()
	ret := bpf.RawInstruction{Op: cbpf.RetK, K: 1}
	for name, ins := range map[string]bpf.RawInstruction{
		"vlan tag":       {Op: cbpf.LdAbs | cbpf.SizeB, K: 0xfffff000 + 48},
		"network header": {Op: cbpf.LdAbs | cbpf.SizeB, K: 0xfff00000 + 9},
		"link header":    {Op: cbpf.LdInd | cbpf.SizeB, K: 0xffe00000},
		"unknown":        {Op: 0xff},
	} {
		if body, err := Translate(&filter.Program{Instructions: []bpf.RawInstruction{ins, ret}}); err == nil {
			t.Errorf("%s: translated to %v", name, body)
		}
	}
	if _, err := Translate(&filter.Program{}); err == nil {
		t.Error("empty program translated")
	}
	for _, size := range []int{0, -1, math.MaxInt16 + 1} {
		if _, err := TranslateBuffer(&filter.Program{Instructions: []bpf.RawInstruction{ret}}, size); err == nil {
			t.Errorf("a buffer of %d bytes is taken", size)
		}
	}
}
