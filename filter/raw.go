package filter

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/net/bpf"
)

// ParseRaw parses a classic program in the text format of "tcpdump -ddd": a line with the number of
// instructions, then a line "op jt jf k" for each. Commas may replace newlines, as in iptables and
// tc. ParseRaw returns only programs that pass Check.
func ParseRaw(text string) ([]bpf.RawInstruction, error) {
	var lines []string
	for line := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '\n' || r == ',' }) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return nil, errors.New("filter program is empty: expected the output of tcpdump -ddd")
	}
	count, err := strconv.ParseUint(lines[0], 10, 32)
	if err != nil {
		return nil, fmt.Errorf("filter program starts with %.40q instead of the number of instructions: expected the output of tcpdump -ddd", lines[0])
	}
	if count > MaxInstructions {
		return nil, fmt.Errorf("filter program has %d instructions, the kernel takes %d", count, MaxInstructions)
	}
	if got := len(lines) - 1; uint64(got) != count {
		return nil, fmt.Errorf("filter program has %d instructions instead of the %d it announces", got, count)
	}
	prog := make([]bpf.RawInstruction, count)
	for i, line := range lines[1:] {
		if prog[i], err = parseInstruction(line); err != nil {
			return nil, fmt.Errorf("filter program, instruction %d: %w", i, err)
		}
	}
	if err := Check(prog); err != nil {
		return nil, fmt.Errorf("filter program: %w", err)
	}
	return prog, nil
}

// parseInstruction reads "op jt jf k".
func parseInstruction(line string) (ins bpf.RawInstruction, err error) {
	words := strings.Fields(line)
	if len(words) != 4 {
		return ins, fmt.Errorf("%.40q is not four numbers: op jt jf k", line)
	}
	var v [4]uint64
	for i, bits := range []int{16, 8, 8, 32} {
		if v[i], err = strconv.ParseUint(words[i], 10, bits); err != nil {
			return ins, fmt.Errorf("%.40q is not a decimal number of %d bits", words[i], bits)
		}
	}
	return bpf.RawInstruction{Op: uint16(v[0]), Jt: uint8(v[1]), Jf: uint8(v[2]), K: uint32(v[3])}, nil
}
