package support

import (
	"errors"
	"fmt"
	"slices"

	"github.com/xdpcap/xdpcap/capture/packet"
	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// An Interface describes the XDP features of a network interface and its driver.
type Interface struct {
	Index   int              `json:"-"`
	Name    string           `json:"name"`
	Driver  string           `json:"driver"` // "" = without a driver
	Type    string           `json:"type"`   // link-layer type: "ether", ...
	Up      bool             `json:"up"`
	MTU     int              `json:"mtu"`       // bytes
	Queues  int              `json:"rx_queues"` // queues that receive now; 0 = unknown
	Native  Check            `json:"native_xdp"`
	Frags   Check            `json:"xdp_frags"`
	LRO     *bool            `json:"lro"`             // nil = unknown
	VLAN    *bool            `json:"rx_vlan_offload"` // nil = unknown
	Filter  *bool            `json:"rx_vlan_filter"`  // nil = unknown
	Kfuncs  []string         `json:"metadata_kfuncs"` // nil = unknown
	Clock   *string          `json:"ptp_clock"`       // nil = no clock
	Program *AttachedProgram `json:"program"`         // nil = no program

	qdisc Check // whether it has room for clsact: see Report.egress
}

// An AttachedProgram is the XDP program of an interface.
type AttachedProgram struct {
	ID        uint32 `json:"id"`
	Name      string `json:"name"` // "" = the kernel does not show it to this user
	Mode      string `json:"mode"` // native, generic or offload
	Traceable Check  `json:"traceable"`
}

func probeInterface(ifi xdp.Interface) *Interface {
	reported := readFeatures(ifi.Index)
	c := &Interface{
		Index:  ifi.Index,
		Name:   ifi.Name,
		Driver: ifi.Driver,
		Type:   ifi.Type,
		Up:     ifi.Up,
		MTU:    ifi.MTU,
		Queues: ifi.ActiveQueues(),
		Native: nativeXDP(ifi, reported),
		Frags:  checkFragments(ifi, reported),
		Kfuncs: reported.kfuncs(),
	}
	c.LRO, c.VLAN = ifi.Offloads()
	c.Filter = ifi.FiltersVLANs()
	c.qdisc = checkQdisc(ifi)
	if n, ok := ifi.PTPClock(); ok {
		name := fmt.Sprintf("/dev/ptp%d", n)
		c.Clock = &name
	}
	if len(ifi.Programs) > 0 {
		p, err := xdp.OneProgram(ifi, "")
		if err != nil {
			p = ifi.Programs[0]
		}
		c.Program = &AttachedProgram{ID: p.ID, Name: p.Name, Mode: ifi.Mode.String(), Traceable: checkTraceable(p, ifi.Mode)}
	}
	return c
}

func checkTraceable(p xdp.Program, mode packet.Mode) Check {
	const key = "traceable"
	if mode == packet.Offload {
		return no(key, "it runs on the network card, out of the kernel's sight", "")
	}
	return tracingCheck(key, TryProgram(p.ID))
}

const reportedSince = "the kernel tells since 6.3"

// errNoNative is the kind of a check that finds no native XDP: generic mode and tc work without it.
var errNoNative = errors.Join(xdp.ErrNoNative, xdp.ErrNotAtXDP)

// NativeXDP checks whether the driver of an interface runs XDP programs.
func NativeXDP(ifi xdp.Interface) Check { return nativeXDP(ifi, readFeatures(ifi.Index)) }

// nativeXDP reads the features that the driver reports. It does not try to attach, because many
// drivers reset their queues for that.
func nativeXDP(ifi xdp.Interface, reported netdevFeatures) Check {
	const key = "native_xdp"
	switch {
	case len(ifi.Programs) > 0 && ifi.Mode == packet.Native:
		return Check{Key: key, Answer: Yes, Reason: "a program runs in native mode now"}
	case reported.xdp == nil:
		return unknown(key, reportedSince+"; a capture takes it if the driver has it")
	case *reported.xdp&netdevXDPActBasic != 0:
		return Check{Key: key, Answer: Yes, Reason: "the driver reports it" + attachWarning(ifi.Driver)}
	case ifi.Driver == "veth":
		return Check{Key: key, Answer: No, Reason: "the peer has more tx queues than this has rx queues, or it has no peer",
			Remedy: "ethtool -L " + message.ShellWord(ifi.Name) + " rx N", Kind: errNoNative}
	}
	return Check{Key: key, Answer: No, Reason: "the driver reports none", Kind: errNoNative}
}

// withoutReset are drivers of virtual interfaces, which do not reset queues to attach a program.
var withoutReset = []string{"tun", "netkit", "virtio_net", "xen-netfront"}

// attachWarning returns the effects on the traffic when a driver attaches a program: "; ...", or
// "".
func attachWarning(driver string) string {
	switch {
	case driver == "veth":
		return "; while a program runs here, the other end of the pair sends TCP much slower; --at tc avoids that"
	case slices.Contains(withoutReset, driver):
		return ""
	}
	return "; to attach a program may reset the card's queues, and let the link go down for a second; --at tc attaches nothing in the driver"
}

// oneBuffer is an MTU in bytes at which a packet fits into one buffer of every driver: a page of
// 4096 bytes, less the room that XDP needs in it.
const oneBuffer = 3000

// checkFragments checks whether packets larger than one buffer reach XDP programs.
func checkFragments(ifi xdp.Interface, reported netdevFeatures) Check {
	const key = "xdp_frags"
	large := no(key, fmt.Sprintf("the driver may refuse native mode with an MTU of %d", ifi.MTU), "ip link set dev "+message.ShellWord(ifi.Name)+" mtu 1500")
	large.Kind = ErrLargeMTU
	switch {
	case reported.xdp == nil && ifi.MTU > oneBuffer:
		large.Answer, large.Reason = Unknown, reportedSince+"; "+large.Reason
		return large
	case reported.xdp == nil:
		return unknown(key, reportedSince)
	case *reported.xdp&netdevXDPActRxSG != 0:
		return Check{Key: key, Answer: Yes, Reason: "packets in several buffers reach XDP"}
	case ifi.MTU > oneBuffer:
		return large
	}
	return no(key, "not needed with this MTU", "")
}
