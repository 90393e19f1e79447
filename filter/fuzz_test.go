package filter

import (
	"os"
	"testing"

	"golang.org/x/net/bpf"
)

// FuzzCompile catches a panic for any text, and a program the kernel would refuse.
func FuzzCompile(f *testing.F) {
	for _, expr := range corners {
		f.Add(expr, false)
	}
	for seed := range uint64(50) {
		f.Add(newGrammar(seed).expression(2), true)
	}
	f.Fuzz(func(t *testing.T, expr string, vlan bool) {
		if len(expr) > 2000 {
			t.Skip("long texts are slow, not different")
		}
		prog, err := CompileRaw(expr, Options{Resolver: fakeResolver{}, Netmask: anyMask, VLANAware: vlan})
		if err != nil {
			_ = err.Error()
			if e, ok := err.(*Error); ok {
				_ = e.Caret()
			}
			return
		}
		if err := Check(prog); err != nil {
			t.Fatalf("%q: %v\n%s", expr, err, Listing(prog))
		}
		if body, err := Translate(prog); err == nil && len(body) == 0 {
			t.Fatalf("%q: nothing translated", expr)
		}
	})
}

// decodeProgram reads eight bytes an instruction.
func decodeProgram(data []byte) []bpf.RawInstruction {
	var prog []bpf.RawInstruction
	for ; len(data) >= 8 && len(prog) < 200; data = data[8:] {
		prog = append(prog, bpf.RawInstruction{Op: uint16(data[0]), Jt: data[1] % 16, Jf: data[2] % 16,
			K: uint32(data[4])<<24 | uint32(data[5])<<16 | uint32(data[6])<<8 | uint32(data[7])})
	}
	return append(prog, bpf.RawInstruction{Op: classRET | rvalA})
}

// FuzzTranslate catches a panic, and, as root, code that the verifier refuses or that gives another result than the interpreter.
func FuzzTranslate(f *testing.F) {
	f.Add([]byte{0x28, 0, 0, 0, 0, 0, 0, 12, 0x15, 0, 1, 0, 0, 0, 8, 0}, []byte("0123456789ab\x08\x00E"))
	f.Add([]byte{0xb1, 0, 0, 0, 0, 0, 0, 14, 0x48, 0, 1, 0, 0, 0, 0, 14, 0x7c, 0, 0, 0, 0, 0, 0, 0}, make([]byte, 64))
	root := os.Getuid() == 0
	f.Fuzz(func(t *testing.T, code, pkt []byte) {
		prog := decodeProgram(code)
		if Check(prog) != nil {
			return
		}
		if _, err := Translate(prog); err != nil {
			return
		}
		if len(pkt) > 3000 || !root {
			pkt = nil
		}
		_ = Listing(prog)
		if pkt == nil {
			return
		}
		compareKernel(t, "fuzz", prog, [][]byte{pkt})
	})
}

// FuzzParseRaw catches a panic, and a program that came through without passing Check.
func FuzzParseRaw(f *testing.F) {
	f.Add("4\n40 0 0 12\n21 0 1 2048\n6 0 0 262144\n6 0 0 0\n")
	f.Add("1,6 0 0 0")
	f.Fuzz(func(t *testing.T, text string) {
		prog, err := ParseRaw(text)
		if err != nil {
			return
		}
		if err := Check(prog); err != nil {
			t.Fatal(err)
		}
	})
}
