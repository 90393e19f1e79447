package xdp

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// A Stub is a program that tail-calls another one while this process holds the Stub. It is for
// places that keep a program after the process is killed, such as a slot of a pinned map. The
// kernel empties a program array when no process holds it. So only the few instructions of the stub
// stay in that place, and the called program and its maps are released.
type Stub struct {
	*ebpf.Program           // the stub itself
	array         *ebpf.Map // holds the program that it calls
}

// NewStub loads a stub for prog. The stub returns verdict if prog is gone. The kernel allows tail
// calls only between programs of one kind: spec has the type, the attach type and the flags of
// prog, and the stub's name.
func NewStub(prog *ebpf.Program, spec ebpf.ProgramSpec, verdict int32) (*Stub, error) {
	array, err := ebpf.NewMap(&ebpf.MapSpec{Name: "stub", Type: ebpf.ProgramArray, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	if err != nil {
		return nil, fmt.Errorf("create the array of a stub: %w", err)
	}
	s := &Stub{array: array}
	spec.Instructions = asm.Instructions{
		asm.LoadMapPtr(asm.R2, array.FD()), // R1 is the context
		asm.Mov.Imm(asm.R3, 0),
		asm.FnTailCall.Call(),
		asm.Mov.Imm(asm.R0, verdict),
		asm.Return(),
	}
	if s.Program, err = ebpf.NewProgram(&spec); err != nil {
		return nil, errors.Join(fmt.Errorf("load a stub: %w", err), s.Close())
	}
	if err := array.Put(uint32(0), prog); err != nil {
		return nil, errors.Join(fmt.Errorf("put a program behind its stub: %w", err), s.Close())
	}
	return s, nil
}

// Replace makes the stub call another program, of the same type and flags. Each packet is passed to
// one of both programs.
func (s *Stub) Replace(prog *ebpf.Program) error {
	if err := s.array.Put(uint32(0), prog); err != nil {
		return fmt.Errorf("put another program behind a stub: %w", err)
	}
	return nil
}

// Close makes the stub return its verdict from now on. A nil Stub may be closed.
func (s *Stub) Close() error {
	if s == nil {
		return nil
	}
	return errors.Join(s.Program.Close(), s.array.Close())
}
