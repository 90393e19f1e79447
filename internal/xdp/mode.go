package xdp

import (
	"fmt"
	"strconv"

	"github.com/vishvananda/netlink/nl"
)

// A Mode is where in the receive path the kernel runs an XDP program.
type Mode int

const (
	Auto    Mode = iota // native, or generic if the driver has no native XDP
	Native              // in the driver, before the kernel has built a socket buffer
	Generic             // in the kernel's stack, for every driver; slower
	Offload             // on the network card; other programs can run there, ours cannot
)

var modeNames = [...]string{"auto", "native", "generic", "offload"}

// attachedModes maps the kernel's number for an attached program's mode.
var attachedModes = map[uint32]Mode{
	nl.XDP_ATTACHED_DRV: Native,
	nl.XDP_ATTACHED_SKB: Generic,
	nl.XDP_ATTACHED_HW:  Offload,
}

// String is the mode's name in lower case, or its number if it has none.
func (m Mode) String() string {
	if m < 0 || int(m) >= len(modeNames) {
		return strconv.Itoa(int(m))
	}
	return modeNames[m]
}

// ParseMode reads the name of a mode that a program can be attached in: "auto", "native" or
// "generic".
func ParseMode(s string) (Mode, error) {
	for m := Auto; m <= Generic; m++ {
		if s == modeNames[m] {
			return m, nil
		}
	}
	return Auto, fmt.Errorf("XDP mode %q: must be auto, native or generic", s)
}
