package filter

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/bpf"

	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
)

func TestParseRaw(t *testing.T) {
	t.Parallel()
	want := []bpf.RawInstruction{{Op: 40, K: 12}, {Op: 21, Jf: 1, K: 2048}, {Op: 6, K: 262144}, {Op: 6}}
	for name, text := range map[string]string{
		"tcpdump": "4\n40 0 0 12\n21 0 1 2048\n6 0 0 262144\n6 0 0 0\n",
		"commas":  "4,40 0 0 12,21 0 1 2048,6 0 0 262144,6 0 0 0",
		"spaces":  " 4 ,\r\n 40 0 0 12,\t21 0 1 2048,6  0 0 262144,6 0 0 0,\n\n",
	} {
		got, err := ParseRaw(text)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
	for text, want := range map[string]string{
		"":                             "is empty",
		"tcp port 80":                  `starts with "tcp port 80"`,
		"1\n6 0 0":                     "four numbers",
		"1\n6 0 0 x":                   "decimal number",
		"1\n6 256 0 0":                 "8 bits",
		"1\n65536 0 0 0":               "16 bits",
		"1\n6 0 0 4294967296":          "32 bits",
		"2\n6 0 0 0":                   "1 instructions instead of the 2",
		"1\n6 0 0 0\n6 0 0 0":          "2 instructions instead of the 1",
		"0\n":                          "no instructions",
		"1\n40 0 0 12":                 "does not end with ret",
		"5000\n":                       "the kernel takes 4096",
		"2\n21 1 0 5\n6 0 0 0":         "instruction 0: jump leaves",
		"2\n5 0 0 4294967295\n6 0 0 0": "instruction 0: jump leaves",
	} {
		if _, err := ParseRaw(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q in it", text, err, want)
		}
	}
}

// TestCheck checks one program for each reason for which the kernel refuses one.
func TestCheck(t *testing.T) {
	t.Parallel()
	for want, ins := range map[string]bpf.RawInstruction{
		"unknown opcode 0xff":     {Op: 0xff},
		"unknown opcode 0x8":      {Op: cbpf.ClassLD | cbpf.SizeH}, // ldh #k
		"unknown opcode 0x141":    {Op: 0x141},
		"division by zero":        {Op: cbpf.ClassALU | cbpf.OpDiv},
		"shift by 32":             {Op: cbpf.Lsh, K: 32},
		"M[16] does not exist":    {Op: cbpf.ClassST, K: 16},
		"M[4294967295] does not":  {Op: cbpf.LdxMem, K: 0xffffffff},
		"jump leaves the program": {Op: cbpf.Jeq, Jf: 1},
		"0: jump leaves the":      {Op: cbpf.Ja, K: 1},
	} {
		err := Check([]bpf.RawInstruction{ins, {Op: cbpf.RetK}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q in it", ins, err, want)
		}
	}
	if err := Check([]bpf.RawInstruction{{Op: cbpf.ClassALU | cbpf.OpMod, K: 1}, {Op: cbpf.Jeq}, {Op: cbpf.RetK}}); err != nil {
		t.Error(err)
	}
	if err := Check(make([]bpf.RawInstruction, MaxInstructions+1)); err == nil {
		t.Error("4097 instructions accepted")
	}
}
