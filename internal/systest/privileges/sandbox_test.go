package privileges_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/privilege"
	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// rights returns the lines of /proc about the rights of a process's threads, each different line
// once.
func rights(t *testing.T, p *systest.Process, names ...string) (lines []string) {
	t.Helper()
	files, _ := filepath.Glob("/proc/" + strconv.Itoa(p.Cmd.Process.Pid) + "/task/*/status")
	if len(files) < 2 {
		t.Fatalf("%d threads", len(files))
	}
	for _, file := range files {
		text, _ := os.ReadFile(file) // the thread may have ended
		for line := range strings.Lines(string(text)) {
			if name, _, _ := strings.Cut(line, ":"); slices.Contains(names, name) {
				lines = append(lines, strings.Join(strings.Fields(line), " "))
			}
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// checkPowerless expects that no thread of the process has or can get any capability.
func checkPowerless(t *testing.T, p *systest.Process) {
	t.Helper()
	want := []string{"CapAmb: " + systest.NoCapability, "CapEff: " + systest.NoCapability, "CapInh: " + systest.NoCapability, "CapPrm: " + systest.NoCapability, "NoNewPrivs: 1"}
	if diff := cmp.Diff(want, rights(t, p, "CapInh", "CapPrm", "CapEff", "CapAmb", "NoNewPrivs")); diff != "" {
		t.Errorf("while capturing: %s", diff)
	}
}

// A capture of a user with the capabilities in docs/privileges.md has none of them while it
// captures, and ends like any other: with an exact account, a whole file, and no program attached.
// Not parallel: in emulated machines it changes a setting of all tests.
func TestUnprivileged(t *testing.T) {
	with := func(more ...uintptr) []uintptr { return slices.Concat(three, more) }
	for i, test := range []struct {
		name  string
		needs []uintptr
		args  func(*testing.T, *testnet.Pair) []string
		want  uint64 // captured packets of those of sendRound
	}{
		{"xdp", with(), func(_ *testing.T, pair *testnet.Pair) []string { return []string{"-i", pair.RxName} }, 6},
		{"promiscuous", with(unix.CAP_NET_RAW), func(_ *testing.T, pair *testnet.Pair) []string {
			return []string{"-i", pair.RxName, "-P"}
		}, 6},
		{"hook map", with(), func(t *testing.T, pair *testnet.Pair) []string {
			return []string{"--hook", systest.PinHookFor(t, testnet.MustTarget(t, pair, testnet.HookedFrags).Hook(), systest.Somebody(t))}
		}, 5},
		{"traced", with(unix.CAP_SYS_ADMIN), func(t *testing.T, pair *testnet.Pair) []string {
			testnet.RequireFentry(t)
			testnet.MustTarget(t, pair, testnet.Rewriting)
			return []string{"-i", pair.RxName, "--rx-capture", "entry,exit"}
		}, 12},
	} {
		for j, transport := range []string{"perf", "ring"} {
			if !testnet.Shared(i + j) {
				continue
			}
			t.Run(test.name+", "+transport, func(t *testing.T) {
				if transport == "perf" {
					setParanoid(t, "2")
				}
				pair := testnet.MustPair(t, testnet.PairOptions{})
				args := test.args(t, pair)
				dir := systest.DirectoryFor(t, systest.Somebody(t))
				file, summary := dir+"/out.pcapng", dir+"/summary.json"
				p := systest.StartCommand(t, pair.Rx, nil, systest.Surroundings{Capabilities: test.needs}.Command(t,
					append(args, "-w", file, "--json="+summary, "--transport", transport)...)).Listening()
				checkPowerless(t, p)
				systest.SendRound(t, pair)
				p.Interrupt()
				if s := systest.Account(t, systest.Contents(t, summary)); s.Captured != test.want || s.Seen != test.want || s.Transport != transport {
					t.Errorf("summary %+v", s)
				}
				if packets := systest.ReadTraced(t, file); len(packets) != int(test.want) {
					t.Errorf("%d packets in the file, want %d", len(packets), test.want)
				}
				if name := systest.Attached(t, pair); strings.HasPrefix(name, "sample") {
					t.Errorf("%s is still attached", name)
				}
			})
		}
	}
}

// A capture of sent packets also drops all rights, even as another user, except the capability to
// remove a filter of clsact. No program stays attached.
func TestUnprivilegedEgress(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-Q", "inout", "-Z", "nobody", "-v")
	capabilities, says := systest.NoCapability, "no capabilities"
	if strings.Contains(p.Stderr(), pair.RxName+": sent packets are seen by clsact\n") {
		capabilities, says = "0000000000001000", "CAP_NET_ADMIN alone, to remove the filter of clsact"
	}
	want := []string{"CapBnd: " + systest.NoCapability, "CapEff: " + capabilities, "CapPrm: " + capabilities, "Uid: 65534 65534 65534 65534"}
	if diff := cmp.Diff(want, rights(t, p, "CapPrm", "CapEff", "CapBnd", "Uid")); diff != "" {
		t.Errorf("while capturing: %s", diff)
	}
	if said := p.Interrupt(); !strings.Contains(said, "xdpcap: privileges: user nobody, "+says+", may open files for writing nowhere, for reading in /proc, /sys alone; system calls are filtered\n") {
		t.Error(said)
	}
	if left := systest.EgressOf(t, pair); left != nil {
		t.Errorf("after the end: %v", left)
	}
	systest.CheckDetached(t, pair)
}

// A capture without rights goes on to the next file, and a program that it starts may write only to
// the directory of the files.
func TestUnprivilegedRotation(t *testing.T) {
	t.Parallel()
	if privilege.LandlockABI() == 0 {
		t.Skip("this kernel has no Landlock")
	}
	pair := testnet.MustPair(t, testnet.PairOptions{})
	dir, elsewhere := systest.DirectoryFor(t, systest.Somebody(t)), systest.DirectoryFor(t, systest.Somebody(t))
	script := elsewhere + "/script"
	text := "#!/bin/sh\ncat /proc/self/status >$1.done\necho done >" + elsewhere + "/done\n"
	testnet.Must(t, os.WriteFile(script, []byte(text), 0o755))
	summary := dir + "/summary"
	given := systest.Surroundings{Capabilities: three}
	p := systest.StartCommand(t, pair.Rx, nil, given.Command(t,
		"-i", pair.RxName, "-w", dir+"/out", "-C", "20k", "-z", script, "--json="+summary)).Listening()
	checkPowerless(t, p)
	const frames = 100
	systest.SendNumbered(t, pair, frames, 1000)
	p.Interrupt()
	if s := systest.Account(t, systest.Contents(t, summary)); s.Captured != frames {
		t.Errorf("summary %+v", s)
	}
	files, _ := filepath.Glob(dir + "/out*")
	finished, _ := filepath.Glob(dir + "/out*.done")
	for _, file := range finished {
		for _, set := range []string{"CapPrm", "CapEff", "CapInh", "CapAmb"} {
			if text := systest.Contents(t, file); !strings.Contains(text, set+":\t"+systest.NoCapability) || !strings.Contains(text, "NoNewPrivs:\t1") {
				t.Fatalf("the program has capabilities or can get some: %s", text)
			}
		}
	}
	if len(finished) < 5 || len(files) != 2*len(finished) {
		t.Errorf("%q and %q", files, finished)
	}
	if _, err := os.Stat(elsewhere + "/done"); err == nil {
		t.Error("the program has written elsewhere")
	}
}

// If a feature is impossible, one line reports it before a program is attached.
func TestSandboxRefusals(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	for _, test := range []struct {
		given systest.Surroundings
		args  string
		want  string
	}{
		{systest.Surroundings{}, "-Z somebody-else", `-Z: there is no user "somebody-else"`},
		{systest.Surroundings{}, "-Z nobody -C 1M -w " + systest.DirectoryFor(t, 0) + "/out", "-w: as user nobody: create files in "},
		{systest.Surroundings{}, "-Z root --no-sandbox", "-Z and --no-sandbox: choose one"},
		{systest.Surroundings{Capabilities: three}, "-Z root", "-Z root: only root can become another user: omit it"},
		{systest.Surroundings{Refused: []uint32{unix.SYS_CAPSET}}, "", "give up privileges: drop capabilities: operation not permitted: --no-sandbox keeps them"},
	} {
		args := append([]string{"-i", pair.RxName}, strings.Fields(test.args)...)
		if !slices.Contains(args, "-w") {
			args = append(args, "-w", os.DevNull)
		}
		status, stderr := systest.StartCommand(t, pair.Rx, nil, test.given.Command(t, args...)).Wait()
		systest.OneLine(t, status, stderr, test.want)
		systest.CheckDetached(t, pair)
	}
}

// A protection that the kernel or a container does not support is reported even without -v.
func TestMissingLimits(t *testing.T) {
	t.Parallel()
	if privilege.LandlockABI() == 0 {
		t.Skip("this kernel has no Landlock")
	}
	file := systest.WriteSample(t, systest.PlainSource).Path
	const landlock, seccomp = "xdpcap: not restricted to files and ports: ", "xdpcap: not restricted to some system calls: "
	for _, test := range []struct {
		args    string
		refused []uint32
		want    []string
	}{
		{"-i IFACE -w /dev/null --duration 10ms", nil, nil},
		{"-i IFACE -w /dev/null --duration 10ms", []uint32{unix.SYS_LANDLOCK_CREATE_RULESET}, []string{landlock}},
		{"-i IFACE -w /dev/null --duration 10ms", []uint32{unix.SYS_SECCOMP}, []string{seccomp}},
		{"stats -i IFACE --duration 10ms", []uint32{unix.SYS_LANDLOCK_CREATE_RULESET, unix.SYS_SECCOMP}, []string{landlock, seccomp}},
		{"read --stats " + file, []uint32{unix.SYS_LANDLOCK_CREATE_RULESET, unix.SYS_SECCOMP}, []string{landlock, seccomp}},
	} {
		t.Run(fmt.Sprint(test.args, test.refused), func(t *testing.T) {
			t.Parallel()
			pair := testnet.MustPair(t, testnet.PairOptions{})
			cmd := systest.Surroundings{Refused: test.refused}.Command(t, strings.Fields(strings.ReplaceAll(test.args, "IFACE", pair.RxName))...)
			status, stderr := systest.StartCommand(t, pair.Rx, nil, cmd).Wait()
			var got []string
			for _, line := range []string{landlock, seccomp} {
				if strings.Contains(stderr, line) {
					got = append(got, line)
				}
			}
			if diff := cmp.Diff(test.want, got); status != 0 || diff != "" {
				t.Errorf("exit status %d, %s: %s", status, stderr, diff)
			}
		})
	}
}

// checkKeeps expects that a process has these capabilities, and can get no others.
func checkKeeps(t *testing.T, p *systest.Process, capabilities ...int) {
	t.Helper()
	kept := uint64(0)
	for _, c := range capabilities {
		kept |= 1 << c
	}
	want := []string{"CapBnd: " + systest.NoCapability, fmt.Sprintf("CapEff: %016x", kept), fmt.Sprintf("CapPrm: %016x", kept), "NoNewPrivs: 1"}
	if diff := cmp.Diff(want, rights(t, p, "CapEff", "CapPrm", "CapBnd", "NoNewPrivs")); diff != "" {
		t.Error(diff)
	}
}

// Counters keep the capabilities to go on with another program. They keep none if their own program
// counts, or if all events are counted. drops keeps the one to read the rules of firewalls. A
// capture keeps those to attach to later interfaces.
func TestCountersKeep(t *testing.T) {
	t.Parallel()
	testnet.Require(t, "nft")
	pair, traced := testnet.MustPair(t, testnet.PairOptions{}), testnet.MustPair(t, testnet.PairOptions{})
	target := testnet.MustTarget(t, traced, testnet.Rewriting)
	testnet.Must(t, pair.Rx.Do(exec.Command("nft", "list", "tables").Run)) // loads nf_tables, without which there are no rules
	for _, test := range []struct {
		args string
		on   *testnet.Pair
		want []int
	}{
		{"stats -i " + pair.RxName, pair, nil},
		{"count --flows 5 -i " + pair.RxName, pair, nil},
		{"latency --kernel-stats -i " + traced.RxName, traced, []int{unix.CAP_SYS_ADMIN}},
		{"monitor", pair, nil},
		{"monitor --record", pair, nil},
		{"drops", pair, []int{unix.CAP_NET_ADMIN}},
		{"drops -i " + pair.RxName, pair, []int{unix.CAP_BPF, unix.CAP_NET_ADMIN, unix.CAP_PERFMON, unix.CAP_SYS_ADMIN}},
		{"monitor -i " + pair.RxName, pair, []int{unix.CAP_SYS_ADMIN}},
		{"monitor --record -i " + pair.RxName, pair, []int{unix.CAP_SYS_ADMIN}},
		{"monitor --program " + systest.ProgramID(t, target), pair, []int{unix.CAP_SYS_ADMIN}},
		{"stats --listen 127.0.0.1:0", pair, []int{unix.CAP_BPF, unix.CAP_NET_ADMIN, unix.CAP_PERFMON, unix.CAP_SYS_ADMIN}},
		{"-i any -w /dev/null", pair, []int{unix.CAP_BPF, unix.CAP_NET_ADMIN, unix.CAP_PERFMON, unix.CAP_SYS_ADMIN}},
		{"-i rx* -w /dev/null", pair, []int{unix.CAP_BPF, unix.CAP_NET_ADMIN, unix.CAP_PERFMON, unix.CAP_SYS_ADMIN}},
	} {
		t.Run(test.args, func(t *testing.T) {
			p := systest.Listening(t, test.on.Rx, nil, strings.Fields(test.args)...)
			checkKeeps(t, p, test.want...)
			isUser(t, p, anybody)
			p.Interrupt()
		})
	}
}

// With --no-sandbox captures and counters keep their capabilities.
func TestNoSandbox(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	_, own, _ := strings.Cut(systest.Contents(t, "/proc/self/status"), "CapEff:")
	own, _, _ = strings.Cut(own, "\n")
	want := []string{"CapEff: " + strings.TrimSpace(own), "NoNewPrivs: 0"}
	for _, args := range []string{"--account", "count"} {
		p := systest.Listening(t, pair.Rx, nil, args, "-i", pair.RxName, "--no-sandbox")
		if diff := cmp.Diff(want, rights(t, p, "CapEff", "NoNewPrivs")); diff != "" {
			t.Errorf("%s: %s", args, diff)
		}
		p.Interrupt()
	}
}

// Counters of sent packets keep the capability to remove a filter of clsact, if there is one.
func TestCountersKeepEgress(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	p := systest.Listening(t, pair.Rx, nil, "count", "-Q", "out", "-i", pair.RxName)
	if strings.Contains(p.Stderr(), ", sent, clsact") {
		checkKeeps(t, p, unix.CAP_NET_ADMIN)
	} else {
		checkKeeps(t, p)
	}
	p.Interrupt()
	if left := systest.EgressOf(t, pair); left != nil {
		t.Errorf("after the end: %v", left)
	}
}

// Counters that trace keep the capabilities to find and trace the next program, even if their own
// program counts on other interfaces.
func TestCountersKeepTracing(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	testnet.MustTarget(t, pair, testnet.Rewriting)
	for i, args := range []string{"stats", "count --flows 5", "count -Q inout", "latency"} {
		if !testnet.Shared(i) {
			continue
		}
		t.Run(args, func(t *testing.T) {
			p := systest.Listening(t, pair.Rx, nil, append(strings.Fields(args), "-i", pair.RxName)...)
			if strings.Contains(args, "inout") {
				testnet.WaitFor(t, "both directions", func() bool { return strings.Contains(p.Stderr(), ", sent, ") })
			}
			want := []int{unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_SYS_ADMIN}
			if strings.Contains(p.Stderr(), ", sent, clsact") {
				want = append(want, unix.CAP_NET_ADMIN)
			}
			checkKeeps(t, p, want...)
			p.Interrupt()
		})
	}
}
