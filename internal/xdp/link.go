package xdp

import (
	"errors"

	"github.com/cilium/ebpf/link"
)

// A Link is a link.Link whose Close also detaches the program. Closing the descriptor is not
// enough: the program runs while a copy of the descriptor is open, and a child process that another
// goroutine starts has a copy until its exec.
type Link struct{ link.Link }

func (l Link) Close() error { return errors.Join(l.Detach(), l.Link.Close()) }
