package xdp

import (
	"errors"
	"fmt"
	"io/fs"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// OpenProgram opens a loaded BPF program of any type by its id. The error is an fs.ErrNotExist if
// it does not exist. It needs CAP_SYS_ADMIN. The caller closes the program.
func OpenProgram(id uint32) (*ebpf.Program, error) {
	return openSettled(func() (*ebpf.Program, error) { return ebpf.NewProgramFromID(ebpf.ProgramID(id)) })
}

// programInfo returns the kernel's information about a program. The errors are those of
// OpenProgram.
func programInfo(id uint32) (*ebpf.ProgramInfo, error) {
	p, err := OpenProgram(id)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	return p.Info()
}

// openSettled gives up when both limits are reached: on a busy machine a single try may take longer
// than settleLimit.
const (
	settleLimit = 100 * time.Millisecond
	settleTries = 10
)

// openSettled opens an object by its id. The kernel returns EAGAIN while another process creates or
// removes the object. openSettled then tries again, and in the end returns an fs.ErrNotExist.
func openSettled[T any](open func() (T, error)) (T, error) {
	begin := time.Now()
	for tries := 1; ; tries++ {
		opened, err := open()
		if !errors.Is(err, unix.EAGAIN) {
			return opened, err
		}
		if tries >= settleTries && time.Since(begin) > settleLimit {
			return opened, fmt.Errorf("%w: %w", fs.ErrNotExist, err)
		}
		time.Sleep(time.Millisecond)
	}
}

// eachLink calls f for every link on the machine, except incomplete ones. It needs CAP_SYS_ADMIN.
func eachLink(f func(*link.Info)) error {
	for id := link.ID(0); ; {
		next, err := nextLink(id)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("list the BPF links: %w", err)
		}
		id = next
		info, err := linkInfo(id)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was removed meanwhile, or is not complete yet
		}
		if err != nil {
			return fmt.Errorf("look at BPF link %d: %w", id, err)
		}
		f(info)
	}
}

func linkInfo(id link.ID) (*link.Info, error) {
	l, err := openSettled(func() (link.Link, error) { return link.NewFromID(id) })
	if err != nil {
		return nil, err
	}
	defer l.Close()
	return l.Info()
}

// nextLink returns the smallest link id larger than id. link.Iterator cannot be used, because it
// ends at the first link that it cannot open.
func nextLink(id link.ID) (link.ID, error) {
	attr := struct{ id, next, flags uint32 }{id: uint32(id)} // of union bpf_attr in linux/bpf.h
	_, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_LINK_GET_NEXT_ID, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	if errno != 0 {
		return 0, errno
	}
	return link.ID(attr.next), nil
}
