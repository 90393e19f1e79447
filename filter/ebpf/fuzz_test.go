package ebpf

import (
	"os"
	"testing"

	"golang.org/x/net/bpf"

	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
)

// decodeProgram makes a program of bytes, eight for an instruction.
func decodeProgram(data []byte) []bpf.RawInstruction {
	var prog []bpf.RawInstruction
	for ; len(data) >= 8 && len(prog) < 200; data = data[8:] {
		prog = append(prog, bpf.RawInstruction{Op: uint16(data[0]), Jt: data[1] % 16, Jf: data[2] % 16,
			K: uint32(data[4])<<24 | uint32(data[5])<<16 | uint32(data[6])<<8 | uint32(data[7])})
	}
	return append(prog, bpf.RawInstruction{Op: cbpf.RetA})
}

// FuzzTranslate catches a panic. As root it also catches code that the verifier refuses, and code
// that gives another result than the interpreter.
func FuzzTranslate(f *testing.F) {
	f.Add([]byte{0x28, 0, 0, 0, 0, 0, 0, 12, 0x15, 0, 1, 0, 0, 0, 8, 0}, []byte("0123456789ab\x08\x00E"))
	f.Add([]byte{0xb1, 0, 0, 0, 0, 0, 0, 14, 0x48, 0, 1, 0, 0, 0, 0, 14, 0x7c, 0, 0, 0, 0, 0, 0, 0}, make([]byte, 64))
	root := os.Getuid() == 0
	f.Fuzz(func(t *testing.T, code, pkt []byte) {
		prog := decodeProgram(code)
		if filter.Check(prog) != nil {
			return
		}
		if _, err := Translate(&filter.Program{Instructions: prog}); err != nil {
			return
		}
		if len(pkt) > 3000 || !root {
			pkt = nil
		}
		_ = filter.Listing(prog)
		if pkt == nil {
			return
		}
		compareKernel(t, "fuzz", prog, [][]byte{pkt})
	})
}
