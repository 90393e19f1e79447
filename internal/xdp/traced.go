package xdp

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Traced returns the constants of bpf/include/traced.h, by name, that restrict a tracing program to
// the packets of one interface. The traced program may also run for other interfaces, even in other
// network namespaces.
func Traced(ifi Interface) (map[string]any, error) {
	var netns unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &netns); err != nil {
		return nil, fmt.Errorf("ask for this thread's network namespace: %w", err)
	}
	return map[string]any{
		"traced_ifindex": uint32(ifi.Index),
		"traced_netns":   uint32(netns.Ino), // an unsigned int in the kernel, too
		"traced_lower":   ifi.receivesBelow(),
	}, nil
}

// receivesBelow reports whether the interface's XDP program runs for packets that came in on
// another device whose master the interface is: the slaves of a bond, and the virtual function that
// Hyper-V's driver uses for a network card. In generic mode the program runs later, when the
// packets belong to the interface itself.
func (ifi *Interface) receivesBelow() bool {
	return ifi.Mode != Generic && (ifi.Driver == "bonding" || ifi.Driver == "hv_netvsc")
}
