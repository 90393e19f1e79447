package filter

import (
	"golang.org/x/net/bpf"

	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
	"github.com/xdpcap/xdpcap/filter/internal/syntax"
)

// Run runs a program that passes Check, such as those of CompileRaw and ParseRaw, on a packet of
// which data was kept, of wireLen bytes. It returns what the program returns: 0 where the packet
// does not match, which is also so where the program looks behind the end of data. Run may be
// called concurrently.
func Run(prog []bpf.RawInstruction, data []byte, wireLen uint32) uint32 {
	return cbpf.Interpret(prog, data, wireLen)
}

// IsKeyword tells whether a word means something in expressions wherever it stands, such as tcp,
// host or not.
func IsKeyword(word string) bool { return syntax.IsKeyword(word) }
