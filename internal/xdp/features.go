package xdp

import (
	"fmt"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// The keys of [Report.Features].
const (
	FeatureNative  = "capture_native"
	FeatureGeneric = "capture_generic"
	FeatureBeside  = "capture_beside_program" // fentry and fexit on it, with verdicts
	FeatureHook    = "hook"                   // --hook
	FeatureFilter  = "filter"                 // in the kernel
	FeatureFlows   = "sample_flows"           // --sample-flows, --first
	FeatureMeters  = "stats_count_latency"    // of a running program
	FeatureMonitor = "monitor"                // tracepoints
)

const bpfFS = "/sys/fs/bpf"

func (r *Report) features(ring int) Checks {
	k := r.Kernel.Checks
	rights := r.rights()
	load := all("", rights, k.Get("xdp"), k.Get("xdp_frags"), k.Get("isa_v3"), k.Get("perf_event_array"),
		k.Get("xdp_helpers"), r.memory(ring))
	trace := all("", rights, k.Get("btf"), k.Get("jit"), k.Get("fentry"), k.Get("fexit"), k.Get("trampolines"), k.Get("tracing_helpers"),
		k.Get("perf_event_array"), r.tracer(), r.target(), r.memory(ring))
	return Checks{
		all(FeatureNative, load, r.port(), r.vacant(), r.native()),
		all(FeatureGeneric, load, r.port(), r.vacant()),
		all(FeatureBeside, trace, r.port()),
		all(FeatureHook, load, k.Get("prog_array"), hookFS()),
		all(FeatureFilter, rights, k.Get("xdp"), k.Get("isa_v3")),
		all(FeatureFlows, rights, k.Get("xdp"), k.Get("lru_hash"), k.Get("xdp_helpers")),
		all(FeatureMeters, rights, k.Get("btf"), k.Get("jit"), k.Get("fentry"), k.Get("fexit"), k.Get("trampolines"), r.tracer(), r.target()),
		all(FeatureMonitor, rights, k.Get("btf"), k.Get("tp_btf")),
	}
}

func (r *Report) rights() Check {
	if len(r.Privileges.Missing) > 0 {
		return Check{"", No, "missing " + strings.Join(r.Privileges.Missing, ", "), grant}
	}
	return Check{Answer: Yes}
}

// tracer is about CAP_SYS_ADMIN: only with it the kernel opens programs by their ids.
func (r *Report) tracer() Check {
	if !has(r.Privileges.held, unix.CAP_SYS_ADMIN) {
		return Check{"", No, "the kernel shows programs of others to CAP_SYS_ADMIN only",
			"run it as root (sudo), or add cap_sys_admin to the binary"}
	}
	return Check{Answer: Yes}
}

func (r *Report) target() Check {
	if !r.occupied() {
		return Check{Answer: Yes}
	}
	return r.Interface.Program.Traceable
}

// vacant is whether there is room for a program of ours.
func (r *Report) vacant() Check {
	if !r.occupied() {
		return Check{Answer: Yes}
	}
	p := r.Interface.Program
	return Check{"", No, fmt.Sprintf("%s runs %s, which is never replaced", r.Interface.Name, Program{p.ID, p.Name}),
		"capture beside it: --rx-capture entry"}
}

func (r *Report) port() Check {
	c := r.Interface
	switch {
	case c == nil:
		return Check{Answer: Yes}
	case c.Type != "ether" && c.Type != "loopback":
		return Check{"", No, fmt.Sprintf("%s is not an Ethernet interface (its link type is %q)", c.Name, c.Type), ""}
	case !c.Up:
		return Check{"", No, c.Name + " is down", "ip link set dev " + c.Name + " up"}
	}
	return Check{Answer: Yes}
}

func (r *Report) native() Check {
	c := r.Interface
	switch {
	case c == nil:
		return Check{Answer: Yes}
	case c.Native.Answer == Yes && c.Frags.Answer == No && c.MTU > oneBuffer:
		return Check{"", Unknown, c.Frags.Reason, c.Frags.Remedy}
	}
	return c.Native
}

// memory is whether rings of this size can be locked.
func (r *Report) memory(ring int) Check {
	limit := r.Privileges.Memlock
	if limit == nil || has(r.Privileges.held, unix.CAP_IPC_LOCK) {
		return Check{Answer: Yes}
	}
	want, may := uint64(ring)*uint64(runtime.NumCPU()), *limit+unaccounted()
	if want <= may {
		return Check{Answer: Yes}
	}
	return Check{"", No, fmt.Sprintf("rings of %d KiB for %d CPUs are more locked memory than this user may have, %d KiB",
		ring>>10, runtime.NumCPU(), may>>10), "a smaller -B, or grant CAP_IPC_LOCK"}
}

func hookFS() Check {
	var fs unix.Statfs_t
	if err := unix.Statfs(bpfFS, &fs); err == nil && fs.Type == unix.BPF_FS_MAGIC {
		return Check{Answer: Yes}
	}
	return Check{"", No, "no BPF file system is mounted on " + bpfFS, "mount -t bpf bpf " + bpfFS}
}
