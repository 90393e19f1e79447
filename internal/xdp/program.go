package xdp

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/message"
)

// FindProgram finds an XDP program by its id or name among all loaded programs of this machine. The
// error is an ErrNoSuchProgram, or an ErrAmbiguousProgram that lists the ids if several have that
// name. It needs CAP_BPF and CAP_SYS_ADMIN.
func FindProgram(nameOrID string) (Program, error) {
	if id, err := strconv.ParseUint(nameOrID, 10, 32); err == nil {
		return programByID(uint32(id))
	}
	var found []Program
	err := eachProgram(func(p Program, info *ebpf.ProgramInfo) {
		if info.Type == ebpf.XDP && p.Name == nameOrID {
			found = append(found, p)
		}
	})
	if err != nil {
		return Program{}, err
	}
	switch len(found) {
	case 0:
		return Program{}, message.Errorf(ErrNoSuchProgram, "no XDP program %q is loaded", nameOrID)
	case 1:
		return found[0], nil
	}
	var ids []string
	for _, p := range found {
		ids = append(ids, strconv.FormatUint(uint64(p.ID), 10))
	}
	return Program{}, message.Errorf(ErrAmbiguousProgram, "%d XDP programs are named %s: their ids are %s",
		len(found), nameOrID, strings.Join(ids, ", "))
}

// eachProgram calls f for every BPF program that is loaded on this machine, of any type. It needs
// CAP_SYS_ADMIN.
func eachProgram(f func(Program, *ebpf.ProgramInfo)) error {
	for id := ebpf.ProgramID(0); ; {
		next, err := ebpf.ProgramGetNextID(id)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return explainHidden("list the loaded BPF programs", err)
		}
		id = next
		prog, err := OpenProgram(uint32(id))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was removed meanwhile
		}
		if err != nil {
			return explainHidden(fmt.Sprintf("open BPF program %d", id), err)
		}
		info, err := prog.Info()
		prog.Close()
		if err == nil {
			f(Program{ID: uint32(id), Name: info.Name}, info)
		}
	}
}

// isLoaded reports whether a program is still loaded, even if this process may not open it.
func isLoaded(p Program) bool {
	prog, err := OpenProgram(p.ID)
	prog.Close() // Close accepts a nil program
	return !errors.Is(err, fs.ErrNotExist)
}

// Identify returns the id and the name that the kernel has given to a loaded program.
func Identify(prog *ebpf.Program) (Program, error) {
	info, err := prog.Info()
	if err != nil {
		return Program{}, err
	}
	id, _ := info.ID() // all kernels with XDP support return it
	return Program{ID: uint32(id), Name: info.Name}, nil
}

// explainHidden adds the missing privilege to an error, if that is the cause.
func explainHidden(tried string, err error) error {
	if !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("%s: %w", tried, err)
	}
	return fmt.Errorf("%s: %w: the kernel shows loaded programs to CAP_SYS_ADMIN only; run it as root (sudo), or add cap_sys_admin to the binary",
		tried, unix.EPERM)
}

func programByID(id uint32) (Program, error) {
	p, err := OpenProgram(id)
	if errors.Is(err, fs.ErrNotExist) {
		return Program{}, message.Errorf(ErrNoSuchProgram, "no XDP program has the id %d", id)
	}
	if err != nil {
		return Program{}, explainHidden(fmt.Sprintf("open XDP program %d", id), err)
	}
	defer p.Close()
	info, err := p.Info()
	if err != nil {
		return Program{}, fmt.Errorf("ask for the name of program %d: %w", id, err)
	}
	if p.Type() != ebpf.XDP {
		return Program{}, fmt.Errorf("program %s (id %d) is no XDP program", info.Name, id)
	}
	return Program{ID: id, Name: info.Name}, nil
}
