package support

import (
	"math"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

var kernelKeys = []string{"btf", "jit", "xdp", "xdp_frags", "isa_v3", "perf_event_array", "perf_event", "shared_rings", "lru_hash", "prog_array",
	"xdp_helpers", "fentry", "fexit", "trampolines", "tp_btf", "tracing_helpers", "egress"}

// ableReport is the report for root, on a kernel that can do everything, of an interface without a
// program.
func ableReport() *Report {
	r := &Report{Privileges: Privileges{held: 1 << unix.CAP_SYS_ADMIN}}
	for _, key := range kernelKeys {
		r.Kernel.Checks = append(r.Kernel.Checks, yes(key))
	}
	r.Interface = &Interface{Name: "eth0", Type: "ether", Up: true, MTU: 1500, Native: yes("native_xdp"), Frags: yes("xdp_frags")}
	return r
}

// Each table entry takes one thing away; every feature that it does not name must still be there.
func TestFeatures(t *testing.T) {
	t.Parallel()
	lacks := func(key string) func(*Report, *limits) {
		return func(r *Report, _ *limits) {
			for i := range r.Kernel.Checks {
				if c := &r.Kernel.Checks[i]; c.Key == key {
					*c = no(key, "lacks "+key, "get it")
				}
			}
		}
	}
	occupy := func(r *Report, _ *limits) {
		r.Interface.Program = &AttachedProgram{ID: 7, Name: "lb", Mode: "native", Traceable: yes("traceable")}
	}
	clsact := func(r *Report, _ *limits) {
		i := slices.IndexFunc(r.Kernel.Checks, func(c Check) bool { return c.Key == "egress" })
		r.Kernel.Checks[i].Reason = "by clsact"
	}
	page := uint64(os.Getpagesize())
	lockable := func(bytes uint64) func(*Report, *limits) {
		return func(_ *Report, l *limits) { l.lockable = bytes }
	}
	lack := func(key string) Check { return no("", "lacks "+key, "get it") }
	busy := Check{Answer: No, Reason: "eth0 runs lb (id 7), which is never replaced", Kind: ErrOccupied}
	stuck := Check{Answer: No, Reason: busy.Reason} // it cannot be traced either
	crowded := Check{Answer: No, Reason: "rings of 128 KiB for 4 CPUs are more locked memory than this user may have, 512 KiB", Kind: ErrLockedMemory}
	smaller := Check{Answer: Yes, Reason: "with rings of 4096 KiB for each CPU, since this user may lock no more than 32768 KiB"}
	down := no("", "eth0 is down", "ip link set dev eth0 up")
	hidden := no("", "the kernel shows programs of others to CAP_SYS_ADMIN only", "run it as root (sudo), or add cap_sys_admin to the binary")
	missing := no("", "missing CAP_BPF", privilegeRemedy())
	large := Check{Answer: Unknown, Reason: "too large", Remedy: "smaller", Kind: ErrLargeMTU}
	const mean = "the mean alone, from the kernel's counters: "
	type answers map[string]Check
	for _, test := range []struct {
		name    string
		change  func(*Report, *limits)
		capture bool
		want    answers
	}{
		{"everything", func(*Report, *limits) {}, true, nil},
		{"no interface", func(r *Report, _ *limits) { r.Interface = nil }, true, nil},
		{"no BTF", lacks("btf"), true, answers{FeatureBeside: lack("btf"), FeatureMonitor: lack("btf")}},
		{"no JIT", lacks("jit"), true, answers{FeatureBeside: lack("jit")}},
		{"no JIT, and functions of the kernel to call", func(r *Report, l *limits) { lacks("jit")(r, l); l.calls = true }, false, answers{
			FeatureNative: lack("jit"), FeatureGeneric: lack("jit"), FeatureHook: lack("jit"), FeatureBeside: lack("jit")}},
		{"no fentry", lacks("fentry"), true, answers{FeatureBeside: lack("fentry")}},
		{"no fexit", lacks("fexit"), true, answers{FeatureBeside: lack("fexit")}},
		{"no trampolines", lacks("trampolines"), true, answers{FeatureBeside: lack("trampolines")}},
		{"no helpers in tracing", lacks("tracing_helpers"), true, answers{FeatureBeside: lack("tracing_helpers")}},
		{"no tp_btf", lacks("tp_btf"), true, answers{FeatureMonitor: lack("tp_btf")}},
		{"no program arrays", lacks("prog_array"), true, answers{FeatureHook: lack("prog_array")}},
		{"no LRU", lacks("lru_hash"), true, answers{FeatureFlows: lack("lru_hash")}},
		{"no frags", lacks("xdp_frags"), false, answers{FeatureNative: lack("xdp_frags"), FeatureGeneric: lack("xdp_frags"), FeatureHook: lack("xdp_frags"),
			FeatureMeters: lack("xdp_frags"), FeatureLatency: lack("xdp_frags")}},
		{"no instruction set v3", lacks("isa_v3"), false, answers{FeatureNative: lack("isa_v3"), FeatureGeneric: lack("isa_v3"),
			FeatureHook: lack("isa_v3"), FeatureFilter: lack("isa_v3"), FeatureMeters: lack("isa_v3"), FeatureLatency: lack("isa_v3")}},
		{"no perf rings", lacks("perf_event_array"), true, answers{FeaturePerf: lack("perf_event_array")}},
		{"no perf events", lacks("perf_event"), true, answers{FeaturePerf: lack("perf_event")}},
		{"no shared memory", lacks("shared_rings"), true, answers{FeatureRing: lack("shared_rings")}},
		{"no rings at all", func(r *Report, l *limits) { lacks("perf_event")(r, l); lacks("shared_rings")(r, l) }, false, answers{
			FeatureNative: lack("perf_event"), FeatureGeneric: lack("perf_event"), FeatureHook: lack("perf_event"),
			FeatureBeside: lack("perf_event"), FeatureTC: lack("perf_event"), FeatureSent: lack("perf_event"), FeaturePerf: lack("perf_event"), FeatureRing: lack("shared_rings")}},
		{"no egress", lacks("egress"), true, answers{FeatureTC: lack("egress"), FeatureSent: lack("egress")}},
		{"egress by clsact", clsact, true, answers{FeatureTC: {Answer: Yes, Reason: "by clsact"}, FeatureSent: {Answer: Yes, Reason: "by clsact"}}},
		{"another qdisc in the place of clsact", func(r *Report, l *limits) {
			clsact(r, l)
			r.Interface.qdisc = no("", "another qdisc", "")
		}, true, answers{FeatureTC: no("", "another qdisc", ""), FeatureSent: no("", "another qdisc", "")}},
		{"another qdisc, and no need of clsact", func(r *Report, l *limits) {
			r.Interface.qdisc = no("", "another qdisc", "")
		}, true, nil},
		{"no helpers in XDP", lacks("xdp_helpers"), false, answers{FeatureNative: lack("xdp_helpers"), FeatureGeneric: lack("xdp_helpers"),
			FeatureHook: lack("xdp_helpers"), FeatureFlows: lack("xdp_helpers")}},
		{"no XDP", lacks("xdp"), false, answers{FeatureNative: lack("xdp"), FeatureGeneric: lack("xdp"), FeatureHook: lack("xdp"),
			FeatureFilter: lack("xdp"), FeatureFlows: lack("xdp"), FeatureMeters: lack("xdp"), FeatureLatency: lack("xdp")}},
		{"no BPF file system", func(_ *Report, l *limits) { l.bpfFS = false }, true,
			answers{FeatureHook: no("", "no BPF file system is mounted", "mount -t bpf bpf /sys/fs/bpf")}},
		{"no capability", func(r *Report, _ *limits) { r.Privileges.Missing = []string{"CAP_BPF"} }, false, answers{
			FeatureNative: missing, FeatureGeneric: missing, FeatureBeside: missing, FeatureHook: missing, FeatureTC: missing, FeatureSent: missing, FeatureFilter: missing,
			FeatureFlows: missing, FeatureMeters: missing, FeatureLatency: missing, FeatureMonitor: missing,
			FeaturePerf: missing, FeatureRing: missing}},
		{"no CAP_SYS_ADMIN", func(r *Report, _ *limits) { r.Privileges.held = 0 }, true,
			answers{FeatureBeside: hidden}},
		{"occupied", occupy, true, answers{FeatureNative: busy, FeatureGeneric: busy}},
		{"occupied by one that cannot be traced", func(r *Report, l *limits) {
			occupy(r, l)
			r.Interface.Program.Traceable = no("traceable", "no BTF", "compile with -g")
		}, false, answers{FeatureNative: stuck, FeatureGeneric: stuck, FeatureBeside: no("", "no BTF", "compile with -g"),
			FeatureMeters: no("", "no BTF", "compile with -g"), FeatureLatency: {Answer: Yes, Reason: mean + "no BTF"}}},
		{"occupied, no fentry", func(r *Report, l *limits) { occupy(r, l); lacks("fentry")(r, l) }, false, answers{
			FeatureNative: stuck, FeatureGeneric: stuck, FeatureBeside: lack("fentry"), FeatureMeters: lack("fentry"),
			FeatureLatency: {Answer: Yes, Reason: mean + "lacks fentry"}}},
		{"occupied, no CAP_SYS_ADMIN", func(r *Report, l *limits) { occupy(r, l); r.Privileges.held = 0 }, false, answers{
			FeatureNative: stuck, FeatureGeneric: stuck, FeatureBeside: hidden, FeatureMeters: hidden, FeatureLatency: hidden}},
		{"down", func(r *Report, _ *limits) { r.Interface.Up = false }, false,
			answers{FeatureNative: down, FeatureGeneric: down, FeatureBeside: down, FeatureTC: down, FeatureSent: down, FeatureMeters: down, FeatureLatency: down}},
		{"no native mode", func(r *Report, _ *limits) { r.Interface.Native = no("native_xdp", "none", "generic") }, true,
			answers{FeatureNative: no("", "none", "generic")}},
		{"an MTU beyond one buffer", func(r *Report, _ *limits) {
			r.Interface.MTU, r.Interface.Frags = 9000, Check{"xdp_frags", No, "too large", "smaller", ErrLargeMTU}
		}, true, answers{FeatureNative: large}},
		{"no frags in the driver, no need of them", func(r *Report, _ *limits) {
			r.Interface.Frags = no("xdp_frags", "of no matter", "")
		}, true, nil},
		{"too little memory for the meta pages", lockable(32 << 20), true, answers{FeaturePerf: smaller}},
		{"too little memory", lockable(512 << 10), true, answers{FeaturePerf: crowded}},
		{"just enough memory", lockable(32<<20 + 4*page), true, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, l := ableReport(), limits{ring: 8 << 20, least: 128 << 10, cpus: 4, lockable: math.MaxUint64, bpfFS: true}
			test.change(r, &l)
			r.decide(l)
			var want Checks
			for _, key := range []string{FeatureNative, FeatureGeneric, FeatureBeside, FeatureHook, FeatureTC, FeatureSent, FeatureFilter, FeatureFlows, FeatureMeters, FeatureLatency, FeatureMonitor, FeaturePerf, FeatureRing} {
				c, changed := test.want[key]
				if !changed {
					c.Answer = Yes
				}
				c.Key = key
				want = append(want, c)
			}
			expect(t, "features", want, r.Features)
			expect(t, "a capture is possible", test.capture, r.CanCapture)
		})
	}
}

// The features use exactly the keys of the kernel's report.
func TestKernelKeys(t *testing.T) {
	t.Parallel()
	k, err := probeKernel()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range k.Checks {
		got = append(got, c.Key)
	}
	expect(t, "keys", kernelKeys, got)
}
