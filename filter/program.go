package filter

import (
	"golang.org/x/net/bpf"

	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
)

// A Program is a compiled filter. A nil *Program is no filter for those that take one.
type Program struct {
	Instructions []bpf.RawInstruction
}

// Run runs a program, as the function Run does.
func (p *Program) Run(data []byte, wireLen uint32) uint32 {
	return cbpf.Interpret(p.Instructions, data, wireLen)
}

// MatchesNone returns a program that matches no packet.
func MatchesNone() *Program { return &Program{Instructions: []bpf.RawInstruction{{Op: cbpf.RetK}}} }
