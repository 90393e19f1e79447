package filter

import (
	"golang.org/x/net/bpf"

	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
	"github.com/xdpcap/xdpcap/filter/internal/syntax"
)

// Run runs prog, which must pass Check (programs of CompileRaw and ParseRaw do), on a packet of
// wireLen bytes; data holds the captured ones. It returns the program's return value: 0 if the
// packet does not match, or if the program loads beyond data. Run may be called concurrently.
func Run(prog []bpf.RawInstruction, data []byte, wireLen uint32) uint32 {
	return cbpf.Interpret(prog, data, wireLen)
}

// IsKeyword reports whether a word has a meaning at any position of an expression, such as tcp,
// host or not.
func IsKeyword(word string) bool { return syntax.IsKeyword(word) }
