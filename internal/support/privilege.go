package support

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/privilege"
)

// capabilities lists the capabilities that xdpcap uses, in the order of display.
var capabilities = []struct {
	name string
	bit  int
}{
	{"CAP_BPF", unix.CAP_BPF},
	{"CAP_NET_ADMIN", unix.CAP_NET_ADMIN},
	{"CAP_PERFMON", unix.CAP_PERFMON},
	{"CAP_SYS_ADMIN", unix.CAP_SYS_ADMIN},
	{"CAP_NET_RAW", unix.CAP_NET_RAW},
	{"CAP_IPC_LOCK", unix.CAP_IPC_LOCK},
	{"CAP_SYSLOG", unix.CAP_SYSLOG},
}

// privilegeRemedy returns the remedy for missing capabilities.
func privilegeRemedy() string {
	if os.Geteuid() == 0 {
		return "root lacks them here, as in a container: add them to it by --cap-add, " +
			"or in a pod by securityContext.capabilities"
	}
	binary, err := os.Executable()
	if err != nil {
		binary = "xdpcap"
	}
	return "run it as root (sudo), or give the binary what it needs: " +
		"sudo setcap cap_bpf,cap_net_admin,cap_perfmon+ep " + message.ShellWord(binary)
}

// checkPrivileges returns nil, or an error that names the capabilities that this process lacks to
// load, attach and read an XDP program. The kernel accepts CAP_SYS_ADMIN instead of CAP_BPF and
// CAP_PERFMON.
func checkPrivileges() error {
	held, err := heldCapabilities()
	if err != nil {
		return err
	}
	missing := missingCapabilities(held)
	if len(missing) == 0 {
		return nil
	}
	return message.Errorf(ErrPrivileges, "missing privileges: %s; %s", strings.Join(missing, ", "), privilegeRemedy())
}

// heldCapabilities returns the effective set of this process: bit n is capability number n.
func heldCapabilities() (uint64, error) {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		return 0, fmt.Errorf("ask for this process's capabilities: %w", err)
	}
	return uint64(data[1].Effective)<<32 | uint64(data[0].Effective), nil
}

// heldOrNone is heldCapabilities, or the empty set if the kernel does not report it.
func heldOrNone() uint64 {
	held, err := heldCapabilities()
	if err != nil {
		return 0
	}
	return held
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

// missingForTracing returns missingCapabilities, and CAP_SYS_ADMIN if it is missing: only with it
// the kernel opens other processes' programs by their ids.
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

// Privileges are the capabilities and limits of this process.
type Privileges struct {
	Held    []string `json:"held"`    // of the capabilities that xdpcap uses
	Missing []string `json:"missing"` // of the capabilities that every capture needs

	// Memlock is the number of bytes that the user may lock in memory; nil = no limit. Perf rings
	// count, except with CAP_IPC_LOCK.
	Memlock *uint64 `json:"memlock_bytes"`

	// Paranoid is kernel.perf_event_paranoid, which restricts the opening of perf events; nil =
	// unknown.
	Paranoid *int `json:"perf_event_paranoid"`

	// Landlock is the version of the kernel's Landlock; 0 = not supported. A capture uses it to
	// drop the right to write other files.
	Landlock int `json:"landlock_abi"`

	// UserNamespace means that the capabilities belong to a user namespace (for example a
	// container's root). They do not count for BPF.
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
	if paranoid, err := strconv.Atoi(sysctl(perfParanoid)); err == nil {
		p.Paranoid = &paranoid
	}
	p.Landlock = privilege.LandlockABI()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		return Privileges{}, fmt.Errorf("ask for the limit of locked memory: %w", err)
	}
	if limit.Cur != unix.RLIM_INFINITY {
		p.Memlock = &limit.Cur
	}
	return p, nil
}
