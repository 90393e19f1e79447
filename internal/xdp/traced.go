package xdp

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Traced returns the constants of bpf/include/traced.h, by their names, with which a tracing
// program looks at the packets of one interface. The program that it traces may run for others,
// too, also in other network namespaces.
func Traced(ifi Interface) (map[string]any, error) {
	netns, err := Namespace()
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"traced_ifindex": uint32(ifi.Index),
		"traced_netns":   netns,
		"traced_lower":   ifi.receivesBelow(),
	}, nil
}

// Namespace returns the inode number of the calling thread's network namespace, by which BPF
// programs know it: that of an Interface that was looked up on the same thread.
func Namespace() (uint32, error) {
	var stat unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &stat); err != nil {
		return 0, fmt.Errorf("ask for this thread's network namespace: %w", err)
	}
	return uint32(stat.Ino), nil // an unsigned int in the kernel, too
}

// receivesBelow tells whether the interface's XDP program runs for packets that came in on another
// device, whose master the interface is: those of a bond, and the virtual function that Hyper-V's
// driver has for a network card. In generic mode it runs later, when they are the interface's own.
func (ifi *Interface) receivesBelow() bool {
	return ifi.Mode != Generic && (ifi.Driver == "bonding" || ifi.Driver == "hv_netvsc")
}
