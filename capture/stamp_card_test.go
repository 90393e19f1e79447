package capture

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/capture/internal/probe"
	"github.com/xdpcap/xdpcap/internal/machine"
)

// The host's clock is read for a packet that the card has not stamped. One that the card has
// stamped has the host's stamp of the packet before it, while the poll and the tick last.
func TestCardStampsSpareTheClock(t *testing.T) {
	t.Parallel()
	p := newProgramTest(t, Options{Transport: TransportRing, Buffer: 16 << 20})
	p.sampler.Options.Stamp = AdapterUnsyncedStamp
	must(t, p.sampler.ChooseStamping())
	const packets = 10_000
	program := loadCardStamps(t, p)
	err := machine.Quiet(0, func() error {
		_, err := program.Run(&ebpf.RunOptions{Data: packetOf(64, 0), Repeat: packets})
		return err
	})
	must(t, err)
	samples, _ := p.samples()
	if len(samples) < packets {
		t.Fatalf("%d records of %d packets", len(samples), packets)
	}
	stamped, alike := 0, 0
	for i, s := range samples[1:] {
		before := samples[i].Time
		switch {
		case s.Time < before:
			t.Fatalf("record %d is stamped %d ns before the one before it", i+1, before-s.Time)
		case s.CardTime == 0 && s.Time == before:
			t.Fatalf("record %d has no stamp of the card, and the host's of the record before it", i+1)
		case s.CardTime != 0 && s.Time == before:
			alike++
			fallthrough
		case s.CardTime != 0:
			stamped++
		}
	}
	// Polls of other traffic on this CPU and the clock's ticks end a stamp, too.
	if stamped < packets/3 || stamped > packets*2/3 || alike < stamped*9/10 {
		t.Errorf("the card has stamped %d of %d packets, and %d of these spare the host's clock", stamped, packets, alike)
	}
}

// loadCardStamps loads the program that asks the card, for which half of the packets have a stamp.
// A program that asks a driver is not run by BPF_PROG_RUN, so the question is replaced by a random
// number, which is the stamp, and there is one if it is even.
func loadCardStamps(t *testing.T, p *programTest) *ebpf.Program {
	t.Helper()
	own := probe.Constants{kernel.SamplerVarAskingTime: true, kernel.SamplerVarAskingHash: false, kernel.SamplerVarAskingTag: false}
	own[kernel.SamplerVarSource], own[kernel.SamplerVarHook] = uint32(0), uint32(0)
	loaded, err := p.sampler.Load(probe.Loading{Name: kernel.SamplerProgXdpcapCard, Own: own, Adjust: func(spec *ebpf.ProgramSpec) {
		for code, i := spec.Instructions, 0; i < len(code); i++ {
			asked, asks := strings.CutPrefix(code[i].Reference(), "bpf_xdp_metadata_rx_")
			if !asks {
				continue
			}
			if asked != "timestamp" {
				code[i] = asm.Mov.Imm(asm.R0, -1)
				continue
			}
			// r2 = r10; r2 += place; r1 = context; call
			place := code[i-2]
			if place.OpCode.ALUOp() != asm.Add || place.Dst != asm.R2 || code[i-1].Dst != asm.R1 {
				t.Fatalf("the question cannot be replaced in %v", code[i-3:i+1])
			}
			copy(code[i-3:], asm.Instructions{
				asm.FnGetPrandomU32.Call(),
				asm.StoreMem(asm.R10, int16(place.Constant), asm.R0, asm.DWord),
				asm.Mov.Reg(asm.R0, asm.R0),
				asm.And.Imm(asm.R0, 1),
			})
		}
	}})
	must(t, err)
	t.Cleanup(func() { loaded.Close() })
	return loaded
}
