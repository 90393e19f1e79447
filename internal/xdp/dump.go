package xdp

import (
	"errors"

	"github.com/vishvananda/netlink"
)

// dumpTries is the maximum number of tries. A dump of hundreds of interfaces takes some
// milliseconds, and a start of many containers changes hundreds of interfaces in a second.
const dumpTries = 20

// Dump requests a list from the kernel by f, and repeats that if the list has changed while the
// kernel wrote it: such a list may lack any entries. If every try is interrupted, the error is
// netlink.ErrDumpInterrupted, and list is the result of the last one.
func Dump[T any](f func() ([]T, error)) (list []T, err error) {
	for range dumpTries {
		if list, err = f(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return list, err
}
