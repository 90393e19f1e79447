package xdp

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cilium/ebpf/features"
	"golang.org/x/sys/unix"
)

// CheckPrivileges returns an error that names the capabilities which this process lacks to load,
// attach and read an XDP program, or nil. CAP_SYS_ADMIN stands in for CAP_BPF and CAP_PERFMON.
func CheckPrivileges() error {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		return fmt.Errorf("ask for this process's capabilities: %w", err)
	}
	held := uint64(data[1].Effective)<<32 | uint64(data[0].Effective)
	missing := missingCapabilities(held)
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("missing privileges: %s; run it as root (sudo), or give the binary what it needs: "+
		"sudo setcap cap_bpf,cap_net_admin,cap_perfmon,cap_ipc_lock+ep FILE", strings.Join(missing, ", "))
}

func missingCapabilities(held uint64) []string {
	has := func(c int) bool { return held&(1<<c) != 0 }
	var missing []string
	if !has(unix.CAP_BPF) && !has(unix.CAP_SYS_ADMIN) {
		missing = append(missing, "CAP_BPF")
	}
	if !has(unix.CAP_NET_ADMIN) {
		missing = append(missing, "CAP_NET_ADMIN")
	}
	if !has(unix.CAP_PERFMON) && !has(unix.CAP_SYS_ADMIN) {
		missing = append(missing, "CAP_PERFMON")
	}
	return missing
}

// oldestKernel is the first that runs programs for packets of several buffers.
const oldestKernel = 5<<16 | 18<<8

// ExplainLoad says what was tried in an error of loading a program or making a map, and gives the cause where the kernel's
// number, and what the library guesses from it, mislead: the capabilities have been checked by then.
func ExplainLoad(tried string, err error) error {
	if errors.Is(err, unix.EPERM) {
		return fmt.Errorf("%s: %w although this process holds the capabilities: a container, a seccomp filter "+
			"or the kernel's lockdown forbids it", tried, unix.EPERM)
	}
	if version, e := features.LinuxVersionCode(); e == nil && version < oldestKernel {
		return fmt.Errorf("%s: %w: this needs Linux 5.18 or later, for packets of several buffers", tried, err)
	}
	return fmt.Errorf("%s: %w", tried, err)
}
