package xdp

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cilium/ebpf/features"
	"golang.org/x/sys/unix"
)

// capabilities are those that make a difference, in the order in which they are named to the user.
var capabilities = []struct {
	name string
	bit  int
}{
	{"CAP_BPF", unix.CAP_BPF},
	{"CAP_NET_ADMIN", unix.CAP_NET_ADMIN},
	{"CAP_PERFMON", unix.CAP_PERFMON},
	{"CAP_SYS_ADMIN", unix.CAP_SYS_ADMIN},
	{"CAP_IPC_LOCK", unix.CAP_IPC_LOCK},
}

// grant is how to come by what is missing.
const grant = "run it as root (sudo), or give the binary what it needs: " +
	"sudo setcap cap_bpf,cap_net_admin,cap_perfmon,cap_ipc_lock+ep FILE"

// CheckPrivileges returns an error that names the capabilities which this process lacks to load,
// attach and read an XDP program, or nil. CAP_SYS_ADMIN stands in for CAP_BPF and CAP_PERFMON.
func CheckPrivileges() error {
	held, err := heldCapabilities()
	if err != nil {
		return err
	}
	missing := missingCapabilities(held)
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("missing privileges: %s; %s", strings.Join(missing, ", "), grant)
}

// heldCapabilities is the effective set, one bit for each.
func heldCapabilities() (uint64, error) {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		return 0, fmt.Errorf("ask for this process's capabilities: %w", err)
	}
	return uint64(data[1].Effective)<<32 | uint64(data[0].Effective), nil
}

func has(held uint64, bit int) bool { return held&(1<<bit) != 0 }

func missingCapabilities(held uint64) []string {
	var missing []string
	if !has(held, unix.CAP_BPF) && !has(held, unix.CAP_SYS_ADMIN) {
		missing = append(missing, "CAP_BPF")
	}
	if !has(held, unix.CAP_NET_ADMIN) {
		missing = append(missing, "CAP_NET_ADMIN")
	}
	if !has(held, unix.CAP_PERFMON) && !has(held, unix.CAP_SYS_ADMIN) {
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

// missingForTracing adds what it takes to open programs of others by their ids.
func missingForTracing() []string {
	held, err := heldCapabilities()
	if err != nil {
		return nil
	}
	missing := missingCapabilities(held)
	if !has(held, unix.CAP_SYS_ADMIN) {
		missing = append(missing, "CAP_SYS_ADMIN")
	}
	return missing
}

// Privileges are what this process may do.
type Privileges struct {
	Held    []string `json:"held"`    // of the capabilities that make a difference here
	Missing []string `json:"missing"` // without which nothing can be captured

	// What a user may lock in memory, in bytes; nil = no limit. Perf rings count, except with
	// CAP_IPC_LOCK.
	Memlock *uint64 `json:"memlock_bytes"`

	// The process is root of a container at most: the kernel does not count its capabilities.
	UserNamespace bool `json:"user_namespace"`

	held uint64
}

func privileges() (Privileges, error) {
	held, err := heldCapabilities()
	if err != nil {
		return Privileges{}, err
	}
	p := Privileges{Held: []string{}, Missing: missingCapabilities(held), UserNamespace: inUserNamespace(), held: held}
	if p.Missing == nil {
		p.Missing = []string{} // [] in JSON, not null
	}
	for _, c := range capabilities {
		if has(held, c.bit) {
			p.Held = append(p.Held, c.name)
		}
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		return Privileges{}, fmt.Errorf("ask for the limit of locked memory: %w", err)
	}
	if limit.Cur != unix.RLIM_INFINITY {
		p.Memlock = &limit.Cur
	}
	return p, nil
}
