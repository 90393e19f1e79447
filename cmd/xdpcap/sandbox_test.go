package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/privilege"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

const nobody = 65534 // in Debian's /etc/passwd

// directoryFor makes a directory that belongs to a user, where that user can get to it.
func directoryFor(t *testing.T, uid int) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sandbox")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chown(dir, uid, uid); err != nil {
		t.Fatal(err)
	}
	return dir
}

// rights are what /proc says of the threads of a process, each line that differs once.
func rights(t *testing.T, p *process, names ...string) (lines []string) {
	t.Helper()
	files, _ := filepath.Glob("/proc/" + strconv.Itoa(p.cmd.Process.Pid) + "/task/*/status")
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

const noCapability = "0000000000000000"

// checkPowerless expects that no thread of the process may do or get anything.
func checkPowerless(t *testing.T, p *process) {
	t.Helper()
	want := []string{"CapAmb: " + noCapability, "CapEff: " + noCapability, "CapInh: " + noCapability, "CapPrm: " + noCapability, "NoNewPrivs: 1"}
	if diff := cmp.Diff(want, rights(t, p, "CapInh", "CapPrm", "CapEff", "CapAmb", "NoNewPrivs")); diff != "" {
		t.Errorf("while capturing: %s", diff)
	}
}

func ownerOf(t *testing.T, file string) int {
	t.Helper()
	var info unix.Stat_t
	if err := unix.Stat(file, &info); err != nil {
		t.Fatal(err)
	}
	return int(info.Uid)
}

// A capture of a user with the capabilities that docs/privileges.md lists has none of them while it
// captures, and ends as any other: with an exact account, a whole file, and nothing attached.
func TestUnprivileged(t *testing.T) {
	with := func(more ...uintptr) []uintptr {
		return append([]uintptr{unix.CAP_BPF, unix.CAP_NET_ADMIN, unix.CAP_PERFMON}, more...)
	}
	for i, test := range []struct {
		name  string
		needs []uintptr
		args  func(*testing.T, *testnet.Pair) []string
		want  uint64 // packets, of those of sendRound
	}{
		{"xdp", with(), func(_ *testing.T, pair *testnet.Pair) []string { return []string{"-i", pair.RxName} }, 6},
		{"promiscuous", with(unix.CAP_NET_RAW), func(_ *testing.T, pair *testnet.Pair) []string {
			return []string{"-i", pair.RxName, "-P"}
		}, 6},
		{"hook map", with(), func(t *testing.T, pair *testnet.Pair) []string {
			return []string{"--hook", pinHookFor(t, attachTarget(t, pair, testnet.HookedFrags).Hook(), somebody)}
		}, 5},
		{"traced", with(unix.CAP_SYS_ADMIN), func(t *testing.T, pair *testnet.Pair) []string {
			testnet.RequireFentry(t)
			attachTarget(t, pair, testnet.Rewriting)
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
				dir := directoryFor(t, somebody)
				file, summary := dir+"/out.pcapng", dir+"/summary.json"
				p := startCommand(t, pair.Rx, nil, surroundings{Capabilities: test.needs}.command(t,
					append(args, "-w", file, "--json="+summary, "--transport", transport)...)).listening()
				checkPowerless(t, p)
				sendRound(t, pair)
				p.interrupt()
				if s := account(t, contents(t, summary)); s.Captured != test.want || s.Seen != test.want || s.Transport != transport {
					t.Errorf("summary %+v", s)
				}
				if packets := readTraced(t, file); len(packets) != int(test.want) {
					t.Errorf("%d packets in the file, want %d", len(packets), test.want)
				}
				if name := attached(t, pair); strings.HasPrefix(name, "sample") {
					t.Errorf("%s is still attached", name)
				}
			})
		}
	}
}

// A capture of sent packets also gives up everything, even as another user, except the capability
// to remove a filter of clsact. Nothing stays attached.
func TestUnprivilegedEgress(t *testing.T) {
	pair := testnet.MustPair(t, testnet.PairOptions{})
	p := listening(t, pair.Rx, nil, "-i", pair.RxName, "-Q", "inout", "-Z", "nobody", "-v")
	capabilities, says := noCapability, "no capabilities"
	if strings.Contains(p.said(), pair.RxName+": sent packets are seen by clsact\n") {
		capabilities, says = "0000000000001000", "CAP_NET_ADMIN alone, to remove the filter of clsact"
	}
	want := []string{"CapBnd: " + noCapability, "CapEff: " + capabilities, "CapPrm: " + capabilities, "Uid: 65534 65534 65534 65534"}
	if diff := cmp.Diff(want, rights(t, p, "CapPrm", "CapEff", "CapBnd", "Uid")); diff != "" {
		t.Errorf("while capturing: %s", diff)
	}
	if said := p.interrupt(); !strings.Contains(said, "xdpcap: privileges: user nobody, "+says+", may open files for writing nowhere, for reading in /proc, /sys alone; system calls are filtered\n") {
		t.Error(said)
	}
	if left := egressOf(t, pair); left != nil {
		t.Errorf("after the end: %v", left)
	}
	checkDetached(t, pair)
}

// A capture without rights goes on to the next file, and a program that it starts may write where
// the files are, and nowhere else.
func TestUnprivilegedRotation(t *testing.T) {
	skipEmulated(t)
	if privilege.LandlockABI() == 0 {
		t.Skip("this kernel has no Landlock")
	}
	pair := testnet.MustPair(t, testnet.PairOptions{})
	dir, elsewhere := directoryFor(t, somebody), directoryFor(t, somebody)
	script := elsewhere + "/script"
	text := "#!/bin/sh\necho done >$1.done\necho done >" + elsewhere + "/done\n"
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	summary := dir + "/summary"
	given := surroundings{Capabilities: []uintptr{unix.CAP_BPF, unix.CAP_NET_ADMIN, unix.CAP_PERFMON}}
	p := startCommand(t, pair.Rx, nil, given.command(t,
		"-i", pair.RxName, "-w", dir+"/out", "-C", "20k", "-z", script, "--json="+summary)).listening()
	checkPowerless(t, p)
	const frames = 100
	for n := range uint64(frames) {
		testnet.Send(t, pair, testnet.UDPFrame(1000, n))
	}
	p.interrupt()
	if s := account(t, contents(t, summary)); s.Captured != frames {
		t.Errorf("summary %+v", s)
	}
	files, _ := filepath.Glob(dir + "/out*")
	finished, _ := filepath.Glob(dir + "/out*.done")
	if len(finished) < 5 || len(files) != 2*len(finished) {
		t.Errorf("%q and %q", files, finished)
	}
	if _, err := os.Stat(elsewhere + "/done"); err == nil {
		t.Error("the program has written elsewhere")
	}
}

// Captures go on without perf events, unless --transport perf was given, and say so.
func TestPerfRefused(t *testing.T) {
	skipEmulated(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	refused := surroundings{Refused: []uint32{unix.SYS_PERF_EVENT_OPEN}}
	for transport, notice := range map[string]string{
		"":     "perf's rings are not available: this kernel refuses perf events despite the capabilities: a seccomp filter may do it: using the transport ring",
		"auto": "",
		"ring": "",
	} {
		t.Run("transport "+transport, func(t *testing.T) {
			summary := filepath.Join(t.TempDir(), "summary")
			args := []string{"-i", pair.RxName, "-w", os.DevNull, "--json=" + summary}
			if transport != "" {
				args = append(args, "--transport", transport)
			}
			p := startCommand(t, pair.Rx, nil, refused.command(t, args...)).listening()
			testnet.Send(t, pair, testnet.UDPFrame(64, 0))
			p.interrupt()
			s := account(t, contents(t, summary))
			if s.Captured != 1 || s.Transport != "ring" || strings.Join(s.Notices, "\n") != notice {
				t.Errorf("summary %+v", s)
			}
		})
	}
}

// Root becomes another user, who gets the files that were made; by default that is the one who
// called sudo, if that user may write where the file is.
func TestBecomeUser(t *testing.T) {
	skipEmulated(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	sudo := []string{"SUDO_UID=" + strconv.Itoa(nobody), "SUDO_GID=" + strconv.Itoa(nobody)}
	for _, test := range []struct {
		name  string
		env   []string
		args  []string
		owner int // of the directory
		want  int // the user
	}{
		{"root", nil, nil, 0, 0},
		{"sudo", sudo, nil, nobody, nobody},
		{"doas", []string{"DOAS_USER=nobody"}, nil, nobody, nobody},
		{"pkexec", []string{"PKEXEC_UID=" + strconv.Itoa(nobody)}, nil, nobody, nobody},
		{"sudo into root's directory", sudo, nil, 0, 0},
		{"sudo of root", []string{"SUDO_UID=0", "SUDO_GID=0"}, nil, nobody, 0},
		{"-Z", nil, []string{"-Z", "nobody"}, 0, nobody},
		{"-Z root", sudo, []string{"-Z", "root"}, nobody, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := directoryFor(t, test.owner)
			file, summary := dir+"/out.pcapng", dir+"/summary.json"
			cmd := command(append(test.args, "-i", pair.RxName, "-w", file, "--json="+summary)...)
			cmd.Env = append(cmd.Env, test.env...)
			p := startCommand(t, pair.Rx, nil, cmd).listening()
			checkPowerless(t, p)
			id := strconv.Itoa(test.want)
			four := strings.Join([]string{id, id, id, id}, " ")
			if diff := cmp.Diff([]string{"CapBnd: " + noCapability, "Gid: " + four, "Uid: " + four}, rights(t, p, "Uid", "Gid", "CapBnd")); diff != "" {
				t.Error(diff)
			}
			testnet.Send(t, pair, testnet.UDPFrame(64, 0))
			p.interrupt()
			if s := account(t, contents(t, summary)); s.Captured != 1 {
				t.Errorf("summary %+v", s)
			}
			for _, made := range []string{file, summary} {
				if got := ownerOf(t, made); got != test.want {
					t.Errorf("%s belongs to %d, want %d", made, got, test.want)
				}
			}
			checkDetached(t, pair)
		})
	}
	t.Run("a file that was there", func(t *testing.T) {
		dir := directoryFor(t, nobody)
		file := dir + "/out.pcapng"
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		p := listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", file, "-Z", "nobody")
		p.interrupt()
		if got := ownerOf(t, file); got != 0 {
			t.Errorf("it belongs to %d", got)
		}
	})
	t.Run("killed", func(t *testing.T) {
		p := listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", os.DevNull, "-Z", "nobody")
		p.cmd.Process.Kill()
		<-p.done
		testnet.WaitFor(t, "the kernel to detach", func() bool { return attached(t, pair) == "" })
	})
	t.Run("printing", func(t *testing.T) {
		p := listening(t, pair.Rx, nil, "-i", pair.RxName, "-Z", "nobody", "-v")
		checkPowerless(t, p)
		if said := p.interrupt(); !strings.Contains(said, "xdpcap: privileges: user nobody, no capabilities, may open files for writing nowhere, for reading in /proc, /sys alone; system calls are filtered\n") {
			t.Error(said)
		}
	})
}

// If something is impossible, one line says so before anything is attached.
func TestSandboxRefusals(t *testing.T) {
	skipEmulated(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	for _, test := range []struct {
		given surroundings
		args  string
		want  string
	}{
		{surroundings{}, "-Z somebody-else", `-Z: there is no user "somebody-else"`},
		{surroundings{}, "-Z nobody -C 1M -w " + directoryFor(t, 0) + "/out", "-w: as user nobody: create files in "},
		{surroundings{}, "-Z root --no-sandbox", "-Z and --no-sandbox: choose one"},
		{surroundings{Capabilities: []uintptr{unix.CAP_BPF, unix.CAP_NET_ADMIN, unix.CAP_PERFMON}}, "-Z root", "-Z root: only root can become another user: omit it"},
		{surroundings{Refused: []uint32{unix.SYS_CAPSET}}, "", "give up privileges: drop capabilities: operation not permitted: --no-sandbox keeps them"},
	} {
		args := append([]string{"-i", pair.RxName}, strings.Fields(test.args)...)
		if !slices.Contains(args, "-w") {
			args = append(args, "-w", os.DevNull)
		}
		status, stderr := startCommand(t, pair.Rx, nil, test.given.command(t, args...)).wait()
		oneLine(t, status, stderr, test.want)
		checkDetached(t, pair)
	}
}

// With --no-sandbox a capture keeps what it has.
func TestNoSandbox(t *testing.T) {
	skipEmulated(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	own := contents(t, "/proc/self/status")
	_, own, _ = strings.Cut(own, "CapEff:")
	own, _, _ = strings.Cut(own, "\n")
	p := listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", os.DevNull, "--no-sandbox")
	want := []string{"CapEff: " + strings.TrimSpace(own), "NoNewPrivs: 0"}
	if diff := cmp.Diff(want, rights(t, p, "CapEff", "NoNewPrivs")); diff != "" {
		t.Error(diff)
	}
	p.interrupt()
}

// checkKeeps expects that a process has these capabilities, and can get no others.
func checkKeeps(t *testing.T, p *process, capabilities ...int) {
	t.Helper()
	kept := uint64(0)
	for _, c := range capabilities {
		kept |= 1 << c
	}
	want := []string{"CapBnd: " + noCapability, fmt.Sprintf("CapEff: %016x", kept), fmt.Sprintf("CapPrm: %016x", kept), "NoNewPrivs: 1"}
	if diff := cmp.Diff(want, rights(t, p, "CapEff", "CapPrm", "CapBnd", "NoNewPrivs")); diff != "" {
		t.Error(diff)
	}
}

// Counters keep the capabilities to go on with another program. They keep none if a program of
// their own counts, or if all events are counted.
func TestCountersKeep(t *testing.T) {
	skipEmulated(t)
	pair, traced := testnet.MustPair(t, testnet.PairOptions{}), testnet.MustPair(t, testnet.PairOptions{})
	target := attachTarget(t, traced, testnet.Rewriting)
	for _, test := range []struct {
		args string
		on   *testnet.Pair
		want []int
	}{
		{"stats -i " + pair.RxName, pair, nil},
		{"count --flows 5 -i " + pair.RxName, pair, nil},
		{"latency --builtin -i " + pair.RxName, pair, nil},
		{"latency --builtin --events -i " + pair.RxName, pair, nil},
		{"latency --kernel-stats -i " + traced.RxName, traced, []int{unix.CAP_SYS_ADMIN}},
		{"monitor", pair, nil},
		{"monitor --record", pair, nil},
		{"drops", pair, nil},
		{"drops -i " + pair.RxName, pair, []int{unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_SYS_ADMIN}},
		{"monitor -i " + pair.RxName, pair, []int{unix.CAP_SYS_ADMIN}},
		{"monitor --record -i " + pair.RxName, pair, []int{unix.CAP_SYS_ADMIN}},
		{"monitor --program " + programID(t, target), pair, []int{unix.CAP_SYS_ADMIN}},
		{"stats --listen 127.0.0.1:0", pair, []int{unix.CAP_BPF, unix.CAP_NET_ADMIN, unix.CAP_PERFMON, unix.CAP_SYS_ADMIN}},
	} {
		t.Run(test.args, func(t *testing.T) {
			p := listening(t, test.on.Rx, nil, strings.Fields(test.args)...)
			checkKeeps(t, p, test.want...)
			p.interrupt()
		})
	}
	p := listening(t, pair.Rx, nil, "count", "-i", pair.RxName, "--no-sandbox")
	if got := rights(t, p, "NoNewPrivs"); !slices.Equal(got, []string{"NoNewPrivs: 0"}) {
		t.Errorf("--no-sandbox: %q", got)
	}
	p.interrupt()
}

// Counters of sent packets keep the capability to remove a filter of clsact, if there is one.
func TestCountersKeepEgress(t *testing.T) {
	pair := testnet.MustPair(t, testnet.PairOptions{})
	p := listening(t, pair.Rx, nil, "count", "-Q", "out", "-i", pair.RxName)
	if strings.Contains(p.said(), ", sent, clsact") {
		checkKeeps(t, p, unix.CAP_NET_ADMIN)
	} else {
		checkKeeps(t, p)
	}
	p.interrupt()
	if left := egressOf(t, pair); left != nil {
		t.Errorf("after the end: %v", left)
	}
}

// Counters that trace keep the capabilities to find and trace the next program, even if they count
// on other interfaces with a program of their own.
func TestCountersKeepTracing(t *testing.T) {
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	attachTarget(t, pair, testnet.Rewriting)
	for i, args := range []string{"stats", "count --flows 5", "count -Q inout", "latency"} {
		if !testnet.Shared(i) {
			continue
		}
		t.Run(args, func(t *testing.T) {
			p := listening(t, pair.Rx, nil, append(strings.Fields(args), "-i", pair.RxName)...)
			if strings.Contains(args, "inout") {
				testnet.WaitFor(t, "both directions", func() bool { return strings.Contains(p.said(), ", sent, ") })
			}
			want := []int{unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_SYS_ADMIN}
			if strings.Contains(p.said(), ", sent, clsact") {
				want = append(want, unix.CAP_NET_ADMIN)
			}
			checkKeeps(t, p, want...)
			p.interrupt()
		})
	}
}

func contents(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
