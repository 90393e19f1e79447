package xdp

import (
	"errors"

	"github.com/vishvananda/netlink"
)

// dumpTries limits how often a dump is repeated. A dump of hundreds of interfaces takes some
// milliseconds, and where containers start hundreds of interfaces change within a second.
const dumpTries = 20

// Dump requests a list from the kernel by f, and again if the list has changed while the kernel
// wrote it: it may then lack entries, also such as have not changed. If it changes in every try,
// the error is netlink.ErrDumpInterrupted, and the list is the last one.
func Dump[T any](f func() ([]T, error)) (list []T, err error) {
	for range dumpTries {
		if list, err = f(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return list, err
}
