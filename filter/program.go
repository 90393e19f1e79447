package filter

import (
	"golang.org/x/net/bpf"

	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
)

// A Program is a compiled filter. A nil *Program is no filter for those that take one.
type Program struct {
	Instructions []bpf.RawInstruction

	// Sets are those that the program looks up in. Then some of its instructions are no classic
	// BPF: the high byte of their opcode is the number of the set, from 1, and they set A to 1 if
	// the bytes that they load are in it, otherwise to 0.
	Sets []NamedSet
}

// Run runs a program, as the function Run does.
func (p *Program) Run(data []byte, wireLen uint32) uint32 {
	return cbpf.InterpretWith(func(set int, key []byte) bool { return p.Sets[set].Contains(key) }, p.Instructions, data, wireLen)
}

// Check is the function Check, and takes look-ups in the program's sets.
func (p *Program) Check() error { return check(p.Instructions, len(p.Sets)) }

// Listing is the function Listing, with the names of the sets.
func (p *Program) Listing() string { return listing(p.Instructions, p.Sets) }

// MatchesNone returns a program that matches no packet.
func MatchesNone() *Program { return &Program{Instructions: []bpf.RawInstruction{{Op: cbpf.RetK}}} }
