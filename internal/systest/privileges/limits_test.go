package privileges_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// three are the capabilities that a capture needs.
var three = []uintptr{unix.CAP_BPF, unix.CAP_NET_ADMIN, unix.CAP_PERFMON}

// Each limit of a process is one line that names the limit and the remedy, and no program is
// attached. Not parallel: in emulated machines it changes a setting of all tests.
func TestLimits(t *testing.T) {
	pair := testnet.MustPair(t, testnet.PairOptions{})
	capture := []string{"-i", pair.RxName, "-w", os.DevNull}
	if testnet.Emulated() {
		setParanoid(t, "2")
	}
	const megabyte = 1 << 20
	for _, test := range []struct {
		name  string
		given systest.Surroundings
		args  []string
		want  []string
	}{
		{"few open files", systest.Surroundings{Limits: map[int]uint64{unix.RLIMIT_NOFILE: 20}}, capture,
			[]string{"too many open files", "ulimit -n"}},
		{"few open files, stats", systest.Surroundings{Limits: map[int]uint64{unix.RLIMIT_NOFILE: 20}}, []string{"stats", "-i", pair.RxName},
			[]string{"too many open files", "ulimit -n"}},
		{"little locked memory", systest.Surroundings{Capabilities: three, Limits: map[int]uint64{unix.RLIMIT_MEMLOCK: megabyte}},
			append(capture, "-B", "8M"), []string{"exceed the memory that this user may lock: at most ", " fit: ", "CAP_IPC_LOCK", "-B", "--transport ring"}},
		{"little address space", systest.Surroundings{Limits: map[int]uint64{unix.RLIMIT_AS: 950 * megabyte}}, append(capture, "-B", "256M"),
			[]string{"rings of 256 MiB", "950 MiB of address space (ulimit -v)", "-B"}},
		{"no /proc", systest.Surroundings{Hidden: []string{"/proc"}}, capture, []string{"/proc/self/mountinfo", "mount -t proc proc /proc"}},
		{"no /proc, probe", systest.Surroundings{Hidden: []string{"/proc"}}, []string{"probe"}, []string{"mount -t proc proc /proc"}},
		{"no /sys", systest.Surroundings{Hidden: []string{"/sys"}}, capture, []string{"/sys/devices/system/cpu/possible", "mount -t sysfs sysfs /sys"}},
		{"no /sys, monitor", systest.Surroundings{Hidden: []string{"/sys"}}, []string{"monitor"}, []string{"mount -t sysfs sysfs /sys"}},
		{"no BTF", systest.Surroundings{Hidden: []string{"/sys/kernel"}}, []string{"monitor"},
			[]string{"/sys/kernel/btf/vmlinux", "use a kernel with CONFIG_DEBUG_INFO_BTF=y"}},
		{"no /proc, drops", systest.Surroundings{Hidden: []string{"/proc"}}, []string{"drops"}, []string{"mount -t proc proc /proc"}},
		{"no bpf", systest.Surroundings{Refused: []uint32{unix.SYS_BPF}}, capture,
			[]string{"operation not permitted", "a seccomp filter may do it", "allow the system call bpf in the filter"}},
		{"no bpf, count", systest.Surroundings{Refused: []uint32{unix.SYS_BPF}}, []string{"count", "-i", pair.RxName},
			[]string{"operation not permitted", "a seccomp filter may do it", "allow the system call bpf in the filter"}},
		{"no perf events", systest.Surroundings{Refused: []uint32{unix.SYS_PERF_EVENT_OPEN}}, append(capture, "--transport", "perf"),
			[]string{"open a perf event on CPU 0: operation not permitted", "allow the system call perf_event_open in the filter", "--transport ring does without"}},
		{"no capability for BPF", systest.Surroundings{Capabilities: three[1:]}, capture, []string{"missing privileges: CAP_BPF;", "setcap"}},
		{"no capability for networks", systest.Surroundings{Capabilities: []uintptr{unix.CAP_BPF, unix.CAP_PERFMON}}, capture, []string{"missing privileges: CAP_NET_ADMIN;"}},
		{"no capability for tracing", systest.Surroundings{Capabilities: three[:2]}, capture, []string{"missing privileges: CAP_PERFMON;"}},
		{"no capability for BPF, stats", systest.Surroundings{Capabilities: three[1:]}, []string{"stats", "-i", pair.RxName},
			[]string{"missing privileges: CAP_BPF;", "setcap"}},
	} {
		// Only the limit for perf's rings depends on the kernel.
		if _, ok := test.given.Limits[unix.RLIMIT_MEMLOCK]; !ok && testnet.Emulated() {
			continue
		}
		t.Run(test.name, func(t *testing.T) {
			cmd := test.given.Command(t, test.args...)
			cmd.Env = append(cmd.Env, "MALLOC_ARENA_MAX=1") // with cgo, each thread would reserve 128 MiB
			status, stderr := systest.StartCommand(t, pair.Rx, nil, cmd).Wait()
			systest.OneLine(t, status, stderr, test.want...)
			systest.CheckDetached(t, pair)
		})
	}

	if testnet.Emulated() {
		return
	}
	// A capture that does not need it works without it.
	p := systest.StartCommand(t, pair.Rx, nil, systest.Surroundings{Hidden: []string{"/sys/kernel"}}.Command(t, capture...)).Listening()
	p.Interrupt()

	// With few threads it either prints one line or captures, even if a file stalls. With fewer, Go
	// itself does not start.
	tasks := systest.NewCgroup(t, "pids")
	for n := uint64(7); n <= 16; n++ {
		tasks.Set(t, "pids.max", n)
		args := append(capture, "-c", "1", "--duration", "1ms")
		status, stderr := systest.StartCommand(t, pair.Rx, nil, systest.Surroundings{Cgroup: tasks.Directory}.Command(t, args...)).Wait()
		if n > 10 {
			if status != 0 {
				t.Errorf("with %d threads: exit status %d: %s", n, status, stderr)
			}
			continue
		}
		systest.OneLine(t, status, stderr, fmt.Sprintf("of %d processes and threads for the cgroup /", n), "raise pids.max", "TasksMax=")
	}

	// With few open files it either prints one line or captures. With fewer, Go itself does not
	// start.
	for n := uint64(10); ; n++ {
		args := append(capture, "-c", "1", "--duration", "1ms")
		status, stderr := systest.StartCommand(t, pair.Rx, nil, systest.Surroundings{Limits: map[int]uint64{unix.RLIMIT_NOFILE: n}}.Command(t, args...)).Wait()
		if status == 0 {
			break
		}
		systest.OneLine(t, status, stderr, "too many open files", "ulimit -n")
	}
}

// A capture and its probe work with the capabilities in docs/privileges.md, for every setting of
// perf.
func TestCapabilities(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	refused := systest.Surroundings{Refused: []uint32{unix.SYS_PERF_EVENT_OPEN}}
	small := map[int]uint64{unix.RLIMIT_MEMLOCK: 64 << 10}
	crowded := fmt.Sprintf("rings of 8 MiB for %d CPUs exceed the memory that this user may lock: ", machine.CPUs())
	const paranoid = "kernel.perf_event_paranoid is 3, which requires CAP_SYS_ADMIN"
	for i, test := range []struct {
		name      string
		paranoid  string // "" = any value
		given     systest.Surroundings
		args      string
		transport string // "" = it does not work
		says      []string
	}{
		{"what suffices", "2", systest.Surroundings{Capabilities: three, Limits: small}, "", "perf",
			[]string{crowded + "ring size lowered to 512 KiB"}},
		{"all memory", "2", systest.Surroundings{Capabilities: slices.Concat(three, []uintptr{unix.CAP_IPC_LOCK}), Limits: small}, "", "perf", nil},
		{"small rings", "2", systest.Surroundings{Capabilities: three, Limits: small}, "-B 256k", "perf", nil},
		{"large rings", "2", systest.Surroundings{Capabilities: three, Limits: small}, "-B 8M", "",
			[]string{crowded + "at most 512 KiB fit: grant CAP_IPC_LOCK"}},
		{"large rings, shared", "2", systest.Surroundings{Capabilities: three, Limits: small}, "-B 8M --transport ring", "ring", nil},
		{"Debian's setting", "3", systest.Surroundings{Capabilities: three}, "", "ring",
			[]string{"perf's rings are not available: " + paranoid + ": using the transport ring"}},
		{"Debian's setting, perf", "3", systest.Surroundings{Capabilities: three}, "--transport perf", "",
			[]string{paranoid + ": run it as root (sudo), add cap_sys_admin ", "; --transport ring does without perf events"}},
		{"perf there", "3", systest.Surroundings{Capabilities: slices.Concat(three, []uintptr{unix.CAP_SYS_ADMIN})}, "--transport perf -B 256k", "perf", nil},
		{"no perf events", "", refused, "", "ring", []string{"perf's rings are not available: this kernel refuses perf events despite the capabilities: a seccomp filter may do it: using the transport ring"}},
		{"no perf events, auto", "", refused, "--transport auto", "ring", nil},
		{"no perf events, ring", "", refused, "--transport ring", "ring", nil},
	} {
		if !testnet.Shared(i) {
			continue
		}
		t.Run(test.name, func(t *testing.T) {
			if test.paranoid != "" {
				setParanoid(t, test.paranoid)
			}
			summary := systest.DirectoryFor(t, systest.Somebody(t)) + "/summary.json"
			args := append(strings.Fields(test.args), "-i", pair.RxName, "-w", os.DevNull, "--json="+summary)
			if works, probed := probeIn(t, pair, test.given); !works {
				t.Errorf("probe says no: %s", probed)
			}
			p := systest.StartCommand(t, pair.Rx, nil, test.given.Command(t, args...))
			if test.transport == "" {
				status, stderr := p.Wait()
				systest.OneLine(t, status, stderr, test.says...)
				return
			}
			p.Listening()
			testnet.Send(t, pair, testnet.UDPFrame(64, 1))
			p.Interrupt()
			s := systest.Account(t, systest.Contents(t, summary))
			if s.Captured != 1 || s.Transport != test.transport || strings.Join(s.Notices, "\n") != strings.Join(test.says, "\n") {
				t.Errorf("summary %+v", s)
			}
		})
	}
}

// probeIn returns probe's result for generic captures.
func probeIn(t *testing.T, pair *testnet.Pair, s systest.Surroundings) (works bool, reason string) {
	t.Helper()
	out, _ := systest.RunIn(t, pair.Rx, s.Command(t, "probe", "--json"))
	var r systest.ProbeJSON
	testnet.Must(t, json.Unmarshal([]byte(out), &r))
	return r.CanCapture, r.Features["capture_generic"].Reason
}

// setParanoid sets kernel.perf_event_paranoid until the end of the test. If that would affect
// others, it skips the test, unless the value is already set.
func setParanoid(t *testing.T, value string) {
	t.Helper()
	const file = "/proc/sys/kernel/perf_event_paranoid"
	old := systest.Contents(t, file)
	if strings.TrimSpace(old) == value {
		return
	}
	if !testnet.Emulated() {
		t.Skip("it would change a setting of this machine")
	}
	testnet.Must(t, os.WriteFile(file, []byte(value), 0))
	t.Cleanup(func() { os.WriteFile(file, []byte(old), 0) })
}
