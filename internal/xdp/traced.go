package xdp

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Traced returns the constants of bpf/include/traced.h, by their names, with which a tracing
// program looks at the packets of one interface. The program that it traces may run for others,
// too, also in other network namespaces.
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

// receivesBelow tells whether the interface's XDP program runs for packets that came in on another
// device, whose master the interface is: those of a bond, and the virtual function that Hyper-V's
// driver has for a network card. In generic mode it runs later, when they are the interface's own.
func (ifi *Interface) receivesBelow() bool {
	return ifi.Mode != Generic && (ifi.Driver == "bonding" || ifi.Driver == "hv_netvsc")
}
