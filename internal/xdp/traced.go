package xdp

import (
	"fmt"

	"github.com/xdpcap/xdpcap/capture/packet"
	"golang.org/x/sys/unix"
)

// Traced returns the constants of bpf/include/traced.h, by name, that restrict a tracing program to
// the packets of one interface. The traced program may also run for other interfaces, even in other
// network namespaces.
func Traced(ifi Interface) (map[string]any, error) {
	netns, err := NetnsInode()
	if err != nil {
		return nil, err
	}
	above, err := ifi.Above()
	if err != nil {
		return nil, err
	}
	var tracedAbove [16]uint32 // MAX_ABOVE of traced.h, which ignores further interfaces
	for i, index := range above[:min(len(above), len(tracedAbove))] {
		tracedAbove[i] = uint32(index)
	}
	return map[string]any{
		"traced_ifindex": uint32(ifi.Index),
		"traced_netns":   netns,
		"traced_lower":   ifi.receivesBelow(),
		"traced_above":   tracedAbove,
	}, nil
}

// NetnsInode returns the inode number of the calling thread's network namespace, which is an
// unsigned int in the kernel.
func NetnsInode() (uint32, error) {
	var netns unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &netns); err != nil {
		return 0, fmt.Errorf("ask for this thread's network namespace: %w", err)
	}
	return uint32(netns.Ino), nil
}

// receivesBelow reports whether the interface's XDP program runs for packets that came in on
// another device whose master the interface is: the slaves of a bond, and the virtual function that
// Hyper-V's driver uses for a network card. In generic mode the program runs later, when the
// packets belong to the interface itself.
func (ifi *Interface) receivesBelow() bool {
	return ifi.Mode != packet.Generic && (ifi.Driver == "bonding" || ifi.Driver == "hv_netvsc")
}
