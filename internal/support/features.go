package support

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// The keys of [Report.Features]: the features of xdpcap.
const (
	FeatureNative  = "capture_native"         // by a program of its own, in the driver
	FeatureGeneric = "capture_generic"        // by a program of its own, in the kernel's stack
	FeatureBeside  = "capture_beside_program" // by tracing a running program
	FeatureHook    = "hook"                   // by programs in a hook map
	FeatureTC      = "capture_tc"             // packets that an interface receives, at tc ingress
	FeatureSent    = "capture_sent"           // packets that an interface sends, at its egress
	FeatureFilter  = "filter"                 // filters that run in the kernel
	FeatureFlows   = "sample_flows"           // choosing packets by their flow
	FeatureMeters  = "stats_count"            // counting: of a running program, else by one of its own
	FeatureLatency = "latency"                // measuring: of a running program, else of one of its own
	FeatureMonitor = "monitor"                // counting at the kernel's XDP tracepoints
	FeaturePerf    = TransportPrefix + "perf" // packets arrive in perf's rings
	FeatureRing    = TransportPrefix + "ring" // packets arrive in shared memory
)

// TransportPrefix begins the keys of transports. The transport's name follows.
const TransportPrefix = "transport_"

func (r *Report) features(l limits) Checks {
	k := r.Kernel.Checks
	rights := r.rights()
	perf := l.perf(all(FeaturePerf, rights, k.Get("perf_event_array"), k.Get("perf_event")))
	ring := all(FeatureRing, rights, k.Get("shared_rings"))
	rings := perf // a capture uses the other kind if this one does not work
	if perf.Answer != Yes && ring.Answer == Yes {
		rings = ring
	}
	load := all("", rights, k.Get("xdp"), k.Get("xdp_frags"), k.Get("isa_v3"), k.Get("xdp_helpers"), rings)
	if l.calls {
		load = all("", load, k.Get("jit"))
	}
	trace := r.Tracing()
	beside := all(FeatureBeside, trace, k.Get("tracing_helpers"), rings, r.port())
	vacant := r.vacant(beside)
	return Checks{
		all(FeatureNative, load, r.port(), vacant, r.native()),
		all(FeatureGeneric, load, r.port(), vacant),
		beside,
		all(FeatureHook, load, k.Get("prog_array"), pinning(l)),
		r.atTC(FeatureTC, rings),
		r.atTC(FeatureSent, rings),
		all(FeatureFilter, rights, k.Get("xdp"), k.Get("isa_v3")),
		all(FeatureFlows, rights, k.Get("xdp"), k.Get("lru_hash"), k.Get("xdp_helpers")),
		r.meters(trace),
		r.latency(trace),
		all(FeatureMonitor, rights, k.Get("btf"), k.Get("tp_btf")),
		perf,
		ring,
	}
}

// Tracing checks whether the interface's XDP program can be traced; without a program, whether any
// can.
func (r *Report) Tracing() Check {
	k := r.Kernel.Checks
	return all("", r.rights(), k.Get("btf"), k.Get("jit"), k.Get("fentry"), k.Get("fexit"), k.Get("trampolines"),
		r.openPrograms(), r.target())
}

// atTC checks whether packets can be captured at tc, which has the same needs in both directions.
// The reason of a yes is the kind of attachment.
func (r *Report) atTC(key string, rings Check) Check {
	egress := r.egress()
	c := all(key, r.rights(), egress, rings, r.port())
	if c.Answer == Yes {
		c.Reason = egress.Reason
	}
	return c
}

// meters checks whether packets can be counted: by tracing the running program, or else by a
// program of ours.
func (r *Report) meters(traced Check) Check {
	if r.occupied() {
		return all(FeatureMeters, traced, r.port())
	}
	k := r.Kernel.Checks
	return all(FeatureMeters, r.rights(), k.Get("xdp"), k.Get("xdp_frags"), k.Get("isa_v3"), r.port())
}

// latency checks whether run times can be measured. If a program cannot be traced, the kernel's
// counters still have the mean.
func (r *Report) latency(traced Check) Check {
	c := r.meters(traced)
	if r.occupied() && c.Answer != Yes {
		if mean := all("", r.rights(), r.openPrograms(), r.port()); mean.Answer == Yes {
			c = Check{Answer: Yes, Reason: "the mean alone, from the kernel's counters: " + c.Reason}
		}
	}
	c.Key = FeatureLatency
	return c
}

func (r *Report) rights() Check {
	if len(r.Privileges.Missing) > 0 {
		return no("", "missing "+strings.Join(r.Privileges.Missing, ", "), privilegeRemedy())
	}
	return yes("")
}

// openPrograms checks whether this process may open other processes' programs. The kernel opens
// programs by their ids only for CAP_SYS_ADMIN.
func (r *Report) openPrograms() Check {
	if !has(r.Privileges.held, unix.CAP_SYS_ADMIN) {
		return no("", "the kernel shows programs of others to CAP_SYS_ADMIN only",
			"run it as root (sudo), or add cap_sys_admin to the binary")
	}
	return yes("")
}

// target checks whether the program that the interface runs can be traced.
func (r *Report) target() Check {
	if !r.occupied() {
		return yes("")
	}
	return r.Interface.Program.Traceable
}

// vacant checks whether the interface has no XDP program, so that one of ours can be attached. If
// it has one, the error is an ErrOccupied only if a capture beside the program would work, because
// that is the remedy for this kind of error.
func (r *Report) vacant(beside Check) Check {
	if !r.occupied() {
		return yes("")
	}
	p := xdp.Program{ID: r.Interface.Program.ID, Name: r.Interface.Program.Name}
	c := Check{Answer: No, Reason: fmt.Sprintf("%s runs %s, which is never replaced", r.Interface.Name, p)}
	if beside.Answer != No {
		c.Kind = ErrOccupied
	}
	return c
}

// port checks whether packets of the interface can be captured.
func (r *Report) port() Check {
	if r.Interface == nil {
		return yes("")
	}
	ifi := xdp.Interface{Name: r.Interface.Name, Type: r.Interface.Type, Up: r.Interface.Up}
	if reason, remedy := ifi.Obstacle(); reason != "" {
		return no("", reason, remedy)
	}
	return yes("")
}

// native checks whether a program of ours would run in native mode. With an MTU larger than one
// buffer, and a driver that does not report XDP for packets of several buffers, that is unknown:
// some drivers accept our program all the same.
func (r *Report) native() Check {
	ifi := r.Interface
	switch {
	case ifi == nil:
		return yes("")
	case ifi.Native.Answer == Yes && ifi.Frags.Answer == No && ifi.MTU > oneBuffer:
		return Check{Answer: Unknown, Reason: ifi.Frags.Reason, Remedy: ifi.Frags.Remedy, Kind: ifi.Frags.Kind}
	}
	return ifi.Native
}

// perf adds the limit of locked memory to a check of perf's rings.
func (l limits) perf(c Check) Check {
	switch size := l.largest(); {
	case c.Answer != Yes:
	case size == 0:
		return Check{Key: c.Key, Answer: No, Kind: ErrLockedMemory,
			Reason: fmt.Sprintf("rings of %d KiB for %d CPUs are more locked memory than this user may have, %d KiB",
				l.least>>10, l.cpus, l.lockable>>10)}
	case size < l.ring:
		c.Reason = fmt.Sprintf("with rings of %d KiB for each CPU, since this user may lock no more than %d KiB", size>>10, l.lockable>>10)
	}
	return c
}

// pinning checks whether there is a file system in which a hook map can be pinned.
func pinning(l limits) Check {
	if l.bpfFS {
		return yes("")
	}
	return no("", "no BPF file system is mounted", "mount -t bpf bpf "+bpfFS)
}
