package bench

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// must ends the test if there is an error.
var must = testnet.Must

// newTarget loads a program of testdata/target.c.
func newTarget(t *testing.T, kind testnet.TargetKind) (*testnet.Target, xdp.Program) {
	t.Helper()
	testnet.RequireRoot(t)
	target, err := testnet.NewTarget(kind)
	must(t, err)
	t.Cleanup(func() { target.Close() })
	p, err := xdp.Identify(target.Program())
	must(t, err)
	return target, p
}

// udpTo is a UDP packet to a port, of at least 64 bytes.
func udpTo(port uint16, size int) []byte {
	p := testnet.UDPFrame(size, 0)
	p[36], p[37] = byte(port>>8), byte(port)
	return p
}

// A program is measured by its verdicts, and its maps change. Packets that it changes are only
// measured in single runs, each with the original packet.
func TestMeasure(t *testing.T) {
	t.Parallel()
	target, p := newTarget(t, testnet.Rewriting)
	packets := [][]byte{
		udpTo(9999, 64), udpTo(testnet.DropPort, 64), udpTo(testnet.DropPort, 1500), udpTo(testnet.UnknownPort, 64),
		udpTo(9999, 9000), // in several buffers
	}
	b, err := Measure(t.Context(), Options{Program: p, Packets: packets, Duration: 20 * time.Millisecond})
	must(t, err)
	type cost struct{ packets, changed, repeated int }
	want := [xdp.VerdictSlots]cost{xdp.Pass: {2, 2, 0}, xdp.Drop: {2, 0, 2}, xdp.UnknownVerdict: {1, 0, 1}}
	for v, c := range b.Verdicts {
		if got := (cost{c.Packets, c.Changed, c.Repeated}); got != want[v] {
			t.Errorf("%s: %+v, want %+v", xdp.Verdict(v).SlotName(), got, want[v])
		}
	}
	if got := (cost{b.Total.Packets, b.Total.Changed, b.Total.Repeated}); got != (cost{5, 2, 3}) || b.Program != p {
		t.Errorf("%+v of %v", got, b.Program)
	}
	counted, err := target.Verdicts()
	must(t, err)
	if counted[xdp.Drop] < 2000 || counted[xdp.Pass] < 2 || counted[xdp.Redirect] > 0 {
		t.Errorf("the program counted %v", counted)
	}
}

// A program that leaves the first packets unchanged and changes all later ones has no figures of
// repeated runs, because most runs had a changed packet.
func TestMeasureChangesLater(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	runs, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	must(t, err)
	defer runs.Close()
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "later", Type: ebpf.XDP, License: "Dual BSD/GPL", Instructions: asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.StoreImm(asm.RFP, -4, 0, asm.Word),
		asm.LoadMapPtr(asm.R1, runs.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "pass"),
		asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord),
		asm.Add.Imm(asm.R1, 1),
		asm.StoreMem(asm.R0, 0, asm.R1, asm.DWord),
		asm.JLT.Imm(asm.R1, 10, "pass"),
		asm.LoadMem(asm.R2, asm.R6, 0, asm.Word), // data
		asm.LoadMem(asm.R3, asm.R6, 4, asm.Word), // data_end
		asm.Mov.Reg(asm.R4, asm.R2),
		asm.Add.Imm(asm.R4, 14),
		asm.JGT.Reg(asm.R4, asm.R3, "pass"),
		asm.StoreImm(asm.R2, 0, 0x55, asm.Byte),
		asm.Mov.Imm(asm.R0, int32(xdp.Pass)).WithSymbol("pass"),
		asm.Return(),
	}})
	must(t, err)
	defer prog.Close()
	p, err := xdp.Identify(prog)
	must(t, err)
	b, err := Measure(t.Context(), Options{Program: p, Packets: [][]byte{make([]byte, 64)}, Duration: 20 * time.Millisecond})
	must(t, err)
	if c := b.Total; c.Packets != 1 || c.Changed != 1 || c.Repeated != 0 {
		t.Errorf("%+v", c)
	}
}

// A program that counts costs more than an empty one, on the packets that bench uses by default.
func TestMeasureOwnPackets(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	receiver := testnet.MustReceiver(t, pair, xdp.Pass, testnet.ReceiverOptions{Count: true})
	p, err := xdp.Identify(receiver.Program())
	must(t, err)
	b, err := Measure(t.Context(), Options{Program: p, Duration: 100 * time.Millisecond})
	must(t, err)
	if c := b.Total; c.Packets != len(commonPackets()) || c.Changed > 0 || c.Repeated != c.Packets || c != b.Verdicts[xdp.Pass] {
		t.Errorf("%+v", c)
	}
	// The times of an empty program are subtracted. On a busy machine the result can be negative.
	if c := b.Total; !testnet.Emulated() && (c.Ns == 0 || c.OnceNs == 0) { // where times say nothing
		t.Errorf("%+v", c)
	}
	t.Logf("%+v", b.Total)
}

// The kernel does not run programs for entries of maps in this way; the error names the program.
func TestMeasureRefused(t *testing.T) {
	t.Parallel()
	for _, kind := range []testnet.TargetKind{testnet.InDevmap, testnet.InCPUMap} {
		_, p := newTarget(t, kind)
		_, err := Measure(t.Context(), Options{Program: p, Duration: time.Millisecond})
		if !errors.Is(err, ErrNotRunnable) || !strings.Contains(err.Error(), p.String()) {
			t.Error(err)
		}
	}
	_, p := newTarget(t, testnet.Rewriting)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Measure(ctx, Options{Program: p, Duration: time.Millisecond}); err == nil {
		t.Error("stopped, and no error")
	}
	if _, err := Measure(t.Context(), Options{Program: xdp.Program{ID: 1 << 31}, Duration: time.Millisecond}); err == nil {
		t.Error("no such program, and no error")
	}
}

// captureOf writes packets to a capture. With cut, each packet had one byte more on the wire.
func captureOf(t testing.TB, format string, link layers.LinkType, cut bool, packets ...[]byte) []byte {
	var b bytes.Buffer
	pcap := pcapgo.NewWriter(&b)
	write, flush := pcap.WritePacket, func() error { return nil }
	if format == "pcap" {
		must(t, pcap.WriteFileHeader(1<<18, link))
	} else {
		ng, err := pcapgo.NewNgWriter(&b, link)
		must(t, err)
		write, flush = ng.WritePacket, ng.Flush
	}
	for _, p := range packets {
		info := gopacket.CaptureInfo{Timestamp: time.Unix(1, 0), CaptureLength: len(p), Length: len(p)}
		if cut {
			info.Length++
		}
		must(t, write(info, p))
	}
	must(t, flush())
	return b.Bytes()
}

func withoutEnd(file []byte) []byte { return file[:len(file)-30] }

func compressed(t *testing.T, file []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(file)
	must(t, errors.Join(err, w.Close()))
	return b.Bytes()
}

// Both formats are read, up to the limits on number and length of packets. A file that cannot be
// used gives an error with the reason.
func TestReadPackets(t *testing.T) {
	t.Parallel()
	many := make([][]byte, MaxPackets+1)
	for i := range many {
		many[i] = make([]byte, 60)
	}
	for _, format := range []string{"pcap", "pcapng"} {
		for _, test := range []struct {
			name                   string
			file                   []byte
			data, cut, short, long int
			more                   bool
			fails                  string
		}{
			{name: "all sizes", file: captureOf(t, format, layers.LinkTypeEthernet, false, make([]byte, 13), make([]byte, 14),
				make([]byte, 65535), make([]byte, 65536)), data: 2, short: 1, long: 1},
			{name: "cut", file: captureOf(t, format, layers.LinkTypeEthernet, true, commonPackets()[:2]...), data: 2, cut: 2},
			{name: "more", file: captureOf(t, format, layers.LinkTypeEthernet, false, many...), data: MaxPackets, more: true},
			{name: "ends within a packet", file: withoutEnd(captureOf(t, format, layers.LinkTypeEthernet, false, commonPackets()[0], many[0])), data: 1, more: true},
			{name: "compressed", file: compressed(t, captureOf(t, format, layers.LinkTypeEthernet, false, commonPackets()[:2]...)), data: 2},
			{name: "no packets", file: captureOf(t, format, layers.LinkTypeEthernet, false), fails: "x has no packets"},
			{name: "only short ones", file: captureOf(t, format, layers.LinkTypeEthernet, false, make([]byte, 4)), fails: "none of the 1 packets of x"},
			{name: "not Ethernet", file: captureOf(t, format, layers.LinkTypeRaw, false, commonPackets()[0]), fails: "instead of an Ethernet header"},
			{name: "empty", fails: "x is empty"},
			{name: "text", file: []byte("#!/bin/sh\necho\n"), fails: "neither pcapng nor pcap"},
		} {
			t.Run(format+" "+test.name, func(t *testing.T) {
				p, err := ReadPackets(bytes.NewReader(test.file), "x")
				if test.fails != "" {
					if err == nil || !strings.Contains(err.Error(), test.fails) {
						t.Errorf("%v, want %q", err, test.fails)
					}
					return
				}
				must(t, err)
				if len(p.Data) != test.data || p.Cut != test.cut || p.Short != test.short || p.Long != test.long || p.More != test.more {
					t.Errorf("%d packets, %d cut, %d short, %d long, more %v", len(p.Data), p.Cut, p.Short, p.Long, p.More)
				}
			})
		}
	}
}

// A file that cannot be read is not called one of another format.
func TestReadPacketsFails(t *testing.T) {
	t.Parallel()
	want := errors.New("input/output error")
	if _, err := ReadPackets(iotest.ErrReader(want), "x"); !errors.Is(err, want) {
		t.Error(err)
	}
}

// No file makes the reader panic or return packets that cannot be run.
func FuzzReadPackets(f *testing.F) {
	f.Add(captureOf(f, "pcap", layers.LinkTypeEthernet, false, commonPackets()[0]))
	f.Add(captureOf(f, "pcapng", layers.LinkTypeEthernet, true, commonPackets()[:2]...))
	f.Fuzz(func(t *testing.T, file []byte) {
		p, err := ReadPackets(bytes.NewReader(file), "x")
		if err != nil {
			return
		}
		for _, data := range p.Data {
			if len(data) < minPacket || len(data) > maxPacket {
				t.Errorf("a packet of %d bytes", len(data))
			}
		}
	})
}
