package xdp

import (
	"errors"

	"github.com/cilium/ebpf/link"
)

// A Link holds a program where it is attached. Close also detaches it. Closing the descriptor alone
// is not enough: the program runs as long as a copy of that is open, and a child that another
// goroutine starts has a copy until its exec.
type Link struct{ link.Link }

func (l Link) Close() error { return errors.Join(l.Detach(), l.Link.Close()) }
