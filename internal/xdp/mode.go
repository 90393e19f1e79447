package xdp

import (
	"github.com/vishvananda/netlink/nl"

	"github.com/xdpcap/xdpcap/capture/packet"
)

// A Mode is where in the receive path the kernel runs an XDP program.
type Mode = packet.Mode

// The modes of package packet.
const (
	Auto    = packet.Auto
	Native  = packet.Native
	Generic = packet.Generic
	Offload = packet.Offload
)

// attachedModes maps the kernel's number for an attached program's mode.
var attachedModes = map[uint32]Mode{
	nl.XDP_ATTACHED_DRV: Native,
	nl.XDP_ATTACHED_SKB: Generic,
	nl.XDP_ATTACHED_HW:  Offload,
}

// ParseMode reads the name of a mode that a program can be attached in: "auto", "native" or
// "generic".
func ParseMode(s string) (Mode, error) { return packet.ParseMode(s) }
