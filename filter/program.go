package filter

import (
	"golang.org/x/net/bpf"

	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
)

// A Program is a compiled filter. As an argument, a nil *Program means "no filter".
type Program struct {
	Instructions []bpf.RawInstruction

	// Sets are the sets in which the program looks up, by instructions that no kernel knows: the
	// high byte of a load's opcode is the number of the set, from 1, and A becomes 1 if the loaded
	// bytes are in the set, otherwise 0.
	Sets []NamedSet
}

// Run runs a program, as the function Run does.
func (p *Program) Run(data []byte, wireLen uint32) uint32 {
	return cbpf.InterpretWith(func(set int, key []byte) bool { return p.Sets[set].Contains(key) }, p.Instructions, data, wireLen)
}

// Check is the function Check, and accepts look-ups in the program's sets.
func (p *Program) Check() error { return check(p.Instructions, len(p.Sets)) }

// Listing is the function Listing, with the names of the sets.
func (p *Program) Listing() string { return listing(p.Instructions, p.Sets) }

// MatchesNone returns a program that matches no packet.
func MatchesNone() *Program { return &Program{Instructions: []bpf.RawInstruction{{Op: cbpf.RetK}}} }

// Run runs prog, which must pass Check (programs of CompileRaw and ParseRaw do), on a packet of
// wireLen bytes; data holds the captured ones. It returns the program's return value: 0 if the
// packet does not match, or if the program loads beyond data. Run may be called concurrently.
func Run(prog []bpf.RawInstruction, data []byte, wireLen uint32) uint32 {
	return cbpf.Interpret(prog, data, wireLen)
}
