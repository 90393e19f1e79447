package commandline_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// An errorTest is a command line and its error.
type errorTest struct {
	args string
	want []string
}

// Each mistake is one clear line and exit status 1. No program is attached, and no file is created.
func TestErrors(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{Addresses: true})
	systest.AddLink(t, pair, &netlink.Bridge{LinkAttrs: systest.Attrs("down0")})
	systest.AddLink(t, pair, &netlink.Tuntap{LinkAttrs: systest.Attrs("tun0"), Mode: netlink.TUNTAP_MODE_TUN})
	systest.AddPair(t, pair, "busy0", 1, 1)
	v, err := testnet.AttachReceiver(pair.Rx, "busy0", xdp.Pass, testnet.ReceiverOptions{})
	testnet.Must(t, err)
	defer v.Close()
	systest.AddPair(t, pair, "few0", 1, 4)
	dir := t.TempDir()
	words := "few0 in native mode: driver veth: no space left on device"
	if testnet.ExplainsRefusals() {
		words += ": veth: XDP expects number of rx queues not less than peer tx queues"
	}

	tests := []errorTest{
		{"-i nosuch", []string{`interface "nosuch" does not exist; there are: lo, rx0, `}},
		{"-i down0", []string{"down0 is down", "ip link set dev down0 up"}},
		{"-i tun0", []string{"tun0 is not an Ethernet interface"}},
		{"-i busy0 --program nosuch", []string{"program nosuch: busy0 does not run it; it runs receiver (id ", "--program"}},
		{"-i busy0 --sink", []string{"busy0 is captured by tracing its program", "--sink"}},
		{"-i rx0 --rx-capture exit", []string{"rx0 runs no XDP program that could be traced: omit --rx-capture to capture at its XDP hook, or see where a program runs: xdpcap interfaces"}},
		{"-i rx0 --slower-than 5us", []string{"rx0 runs no XDP program that could be traced: omit --slower-than to capture at its XDP hook, or see where a program runs: xdpcap interfaces"}},
		{"-i rx0 --sample drop=1", []string{"rx0 runs no XDP program that could be traced: omit --sample to capture"}},
		{"-i rx0 --program 4000000000", []string{"there is no BPF program with id 4000000000", "see xdpcap interfaces"}},
		{"-i few0", []string{words, "--xdp-mode generic works with every driver, at a lower rate; --at tc needs no XDP"}},
		{"-i few0 --xdp-mode native", []string{words, "--xdp-mode generic"}},
		{"-i rx0 -i rx0", []string{"interface rx0 is given twice"}},
		{"-i rx0 -w " + dir + "/no/such/dir.pcapng", []string{"-w: open", "no such file or directory: create its directory first"}},
		{"-i rx0 -w " + dir, []string{"-w: open", "is a directory: name a file in it"}},
		{"-i rx0 --sink", []string{"rx0 has the IP address ", "--yes"}},
	}
	flags := []errorTest{ // errors that do not depend on the kernel
		{"-i rx0 --verdict lost", []string{`--verdict: verdict "lost": must be aborted, drop, pass, tx, redirect, or a number`}},
		{"-i rx0 --rx-capture inside", []string{`--rx-capture: hook "inside": must be entry or exit`}},
		{"-i rx0 --rx-capture entry --reason-map m", []string{"--reason-map: only packets that leave a program have its reason: add --rx-capture exit"}},
		{"-i rx0 --reason-map m --reason=", []string{"--reason: the list is empty"}},
		{"-i rx0 --slower-than 0", []string{"--slower-than 0: must be a time above zero"}},
		{"-i rx0 --slower-than 5", []string{"--slower-than 5s: must be at most 4.294967295s: give it a unit, as in 5us"}},
		{"--hook /none --slower-than 5us", []string{"--slower-than and --hook: a hook map has no run times: trace the program that calls it, with -i"}},
		{"--hook /none --ring 1M -w x --trigger slower:5us", []string{"--trigger slower and --hook: a hook map has no run times"}},
		{"-i rx0 --rx-capture entry,exit --filter-at exit", []string{"a filter at the exit needs exits alone"}},
		{"-i rx0 --verdict 5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21", []string{"17 verdicts to keep: must be at most 16"}},
		{"-i rx0 -s -1", []string{"-s -1: must be a number, which may end in k, M or G, or headers, or headers+64; see xdpcap --help"}},
		{"-i rx0 -B 100", []string{"-B: 102400 bytes for each CPU: must be 128 KiB to 1024 MiB, such as -B 8M"}},
		{"-i rx0 --sample drop=1,pass=0", []string{"--sample pass=0: must be at least 1", "to leave out a verdict, use --verdict"}},
		{"-i rx0 --sample lost=1", []string{`--sample lost=1: "lost=1": must be a verdict and a number, as in drop=1,pass=1000; verdicts are aborted, drop, pass, tx, redirect`}},
		{"-i rx0 --sample drop=1,drop=2", []string{"drop has two numbers"}},
		{"-i rx0 --sample drop=x", []string{`"drop=x": must be a positive whole number`}},
		{"-i rx0 --sample drop=1 -Q out", []string{"sent packets have no verdict"}},
		{"-i rx0 --serve :0 --format json", []string{"--format json: packets are sent as pcapng or pcap: omit it, or choose one of these"}},
		{"-i rx0 --sample drop=1 --rx-capture exit -w tcp://127.0.0.1:9 --format pcap", []string{"a pcap stream cannot record how many packets each one stands for: write pcapng"}},
		{"-i rx0 --sample drop=1 --rx-capture exit --serve :0 -w a.pcapng -w b.pcapng --format pcap", []string{"--serve: a pcap stream cannot record how many packets each one stands for: omit --format"}},
		{"-i rx0 --sample drop=1 --rx-capture exit -w x.pcap", []string{"a pcap file cannot record how many packets each one stands for: write pcapng"}},
		{"-i rx0 --sample auto -w x.pcap", []string{"--sample auto and -w x.pcap: a pcap file cannot record"}},
		{"-i rx0 --xdp-mode fast", []string{`XDP mode "fast": must be auto, native or generic`}},
		{"-i rx0 --account -w x.pcapng", []string{"--account keeps no packets"}},
		{"-i rx0 --listen nosuch", []string{"--listen nosuch: ", "must be HOST:PORT"}},
		{"-i rx0 -P -p", []string{"-P and -p: choose one"}},
		{"-i rx0 --frobnicate", []string{"unknown flag: --frobnicate; see xdpcap --help"}},
	}
	if testnet.Emulated() { // with little memory
		tests = append(tests, errorTest{"-i rx0 -B 1G", []string{"more than a quarter of the available memory", "MiB fit: a smaller -B"}})
	} else {
		tests = append(tests, flags...)
	}
	for _, test := range tests {
		t.Run(test.args, func(t *testing.T) {
			file := filepath.Join(dir, "out.pcapng")
			args := strings.Fields(test.args)
			if !strings.Contains(test.args, "-w ") {
				args = append(args, "-w", file)
			}
			status, stderr := systest.Start(t, pair.Rx, nil, args...).Wait()
			systest.OneLine(t, status, stderr, test.want...)
			if _, err := os.Stat(file); err == nil {
				t.Error("it left a file behind")
				os.Remove(file)
			}
		})
	}
	systest.CheckDetached(t, pair)

	// An older file stays as it was.
	file := systest.TempFile(t)
	testnet.Must(t, os.WriteFile(file, []byte("precious"), 0o600))
	systest.Start(t, pair.Rx, nil, "-i", "nosuch", "-w", file).Wait()
	if text := systest.Contents(t, file); text != "precious" {
		t.Errorf("the file is %q now", text)
	}
}

// A program without BTF cannot be traced, and a kernel without trampolines cannot trace any
// program: one line names the cause.
func TestTracingRefused(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	v, err := testnet.AttachReceiver(pair.Rx, pair.RxName, xdp.Pass, testnet.ReceiverOptions{})
	testnet.Must(t, err)
	status, stderr := systest.Start(t, pair.Rx, nil, "-i", pair.RxName, "-w", os.DevNull).Wait()
	if status != 1 || !strings.Contains(stderr, "xdpcap: XDP program receiver (id ") || !strings.Contains(stderr, "has no BTF") {
		t.Errorf("without BTF: exit status %d: %s", status, stderr)
	}
	v.Close()

	if testnet.ProbeFentry() == nil {
		return // trace_test.go tests kernels that trace
	}
	first := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", os.DevNull)
	for _, args := range []string{"-i rx0 -w /dev/null", "stats -i rx0"} {
		status, stderr = systest.Start(t, pair.Rx, nil, strings.Fields(args)...).Wait()
		if status != 1 || !strings.Contains(stderr, "trace program xdpcap_") || !strings.Contains(stderr,
			": it is another xdpcap's, and this kernel permits no tracing: stop it; or start it with --serve :19000, ") {
			t.Errorf("%s beside another capture: exit status %d: %s", args, status, stderr)
		}
	}
	first.Interrupt()
	target := testnet.MustTarget(t, pair, testnet.Rewriting)
	status, stderr = systest.Start(t, pair.Rx, nil, "-i", pair.RxName, "-w", os.DevNull).Wait()
	want := "xdpcap: trace program rewriting_target_program (id "
	if status != 1 || !strings.HasPrefix(stderr, want) || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "this kernel refuses fentry") {
		t.Errorf("exit status %d: %s", status, stderr)
	}
	testnet.Must(t, testnet.MustSender(t, pair).Send(testnet.UDPFrame(64, 0)))
	testnet.WaitFor(t, "the target to count on", func() bool { return systest.Verdicts(t, target)[xdp.Pass] == 1 })
}

// An interface whose driver has no native XDP is captured in generic mode, and stderr reports it.
func TestGenericFallback(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	systest.AddLink(t, pair, &netlink.Bridge{LinkAttrs: systest.Attrs("bridge0")})
	testnet.Must(t, pair.Rx.Do(func() error {
		l, err := netlink.LinkByName("bridge0")
		if err == nil {
			err = netlink.LinkSetUp(l)
		}
		return err
	}))
	p := systest.Listening(t, pair.Rx, nil, "-i", "bridge0", "-w", os.DevNull, "--json")
	stderr := p.Interrupt()
	if !strings.Contains(stderr, "driver bridge of bridge0 has no native XDP: using generic mode") {
		t.Error(stderr)
	}
	if s := systest.Account(t, stderr); s.Interfaces[0].Mode != "generic" {
		t.Errorf("summary %+v", s)
	}

	status, stderr := systest.Start(t, pair.Rx, nil, "-i", "bridge0", "--xdp-mode", "native").Wait()
	if status != 1 || !strings.Contains(stderr, "operation not supported") || !strings.Contains(stderr, "--xdp-mode generic") ||
		strings.Contains(stderr, "does not support XDP") != testnet.ExplainsRefusals() {
		t.Errorf("native: exit status %d: %s", status, stderr)
	}
}

// Generic mode on request captures the same packets.
func TestGenericMode(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{GRO: true})
	file := systest.TempFile(t)
	p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "--xdp-mode", "generic", "-w", file, "--json")
	var want [][]byte
	for i := range 100 {
		want = append(want, testnet.UDPFrame(100+i, uint64(i)))
	}
	testnet.Send(t, pair, want...)
	testnet.WaitHandled(t) // in generic mode the kernel runs the program after the driver has counted
	if s := systest.Account(t, p.Interrupt()); s.Interfaces[0].Mode != "generic" || s.Captured != 100 {
		t.Errorf("summary %+v", s)
	}
	records, _ := systest.ReadFile(t, file)
	for i, rec := range records {
		if !bytes.Equal(rec.Data, want[i]) {
			t.Errorf("packet %d is\n%x, want\n%x", i, rec.Data, want[i])
		}
	}
}

func TestMissingPrivileges(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	dir := systest.DirectoryFor(t, systest.Nobody)
	file := filepath.Join(dir, "out.pcapng")
	cmd := systest.Command("-i", pair.RxName, "-w", file)
	systest.OpenForAll(t, cmd, systest.XdpcapPath)
	cmd.Env = append(cmd.Env, "HOME=/root") // as sudo may leave it; this user cannot read root's settings
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: systest.Nobody, Gid: systest.Nobody}}
	status, stderr := systest.StartCommand(t, pair.Rx, nil, cmd).Wait()
	if status != 1 || !strings.Contains(stderr, "missing privileges: CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON; run it as root (sudo)") {
		t.Errorf("exit status %d: %s", status, stderr)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("it left a file behind")
	}
}

// Since Linux 6.2 the sampling program calls a kernel function, which needs the kernel's JIT:
// without the JIT, the errors of a capture and of probe name the setting. Not parallel: the setting
// applies to all tests.
func TestWithoutJIT(t *testing.T) {
	if !testnet.Emulated() {
		t.Skip("the setting is the whole machine's: only where that is emulated")
	}
	const jit, remedy = "/proc/sys/net/core/bpf_jit_enable", "sysctl net.core.bpf_jit_enable=1"
	pair := testnet.MustPair(t, testnet.PairOptions{})
	t.Cleanup(func() { os.WriteFile(jit, []byte("1"), 0) })
	testnet.Must(t, os.WriteFile(jit, []byte("0"), 0))
	for _, transport := range []string{"perf", "ring"} {
		status, stderr := systest.Start(t, pair.Rx, nil, "-i", pair.RxName, "--transport", transport).Wait()
		if status != 1 || !strings.HasSuffix(stderr, ": "+remedy+"\n") || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit status %d: %s", transport, status, stderr)
		}
	}
	out, err := systest.RunIn(t, pair.Rx, systest.Command("probe", "-i", pair.RxName, "--json"))
	if err == nil || !strings.Contains(out, remedy) {
		t.Errorf("probe: %v: %s", err, out)
	}
}

// If no program can be attached at XDP, the error names --at tc, which then works: beside a program
// above the interface, and where the driver refuses. It is not named where a flag needs XDP.
func TestAtTCInstead(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	testnet.Uppers[1].MustAdd(t, pair) // br0
	systest.AddPair(t, pair, "few0", 1, 4)
	systest.Listening(t, pair.Rx, nil, "-i", "br0", "-w", os.DevNull, "--json")
	const instead = "; --at tc needs no XDP"
	for _, test := range []struct{ args, want, ending string }{
		{"-i rx0", "rx0 is below br0, which runs XDP program xdpcap_xdp (id ", instead},
		{"-i rx*", "rx0 is below br0, which runs XDP program xdpcap_xdp (id ", ""}, // tc is its default
		{"-i rx* --at xdp", "rx0 is below br0, which runs XDP program xdpcap_xdp (id ", instead},
		{"-i rx0 --xdp-mode generic", "rx0 is below br0, which runs XDP program xdpcap_xdp (id ", "no program below another one"},
		{"-i few0", "few0 in native mode", instead},
		{"-i few0 --sink --yes", "few0 in native mode", "at a lower rate"},
		{"count -i few0", "few0 in native mode", instead},
		{"count -i few0 --xdp-mode native", "few0 in native mode", "at a lower rate"},
		{"stats -i few0", "few0 in native mode", "at a lower rate"},
	} {
		args := strings.Fields(test.args)
		run := func(args ...string) (int, string) {
			if args[0] == "-i" {
				args = append(args, "-w", os.DevNull)
			}
			return systest.Start(t, pair.Rx, nil, append(args, "--duration", "10ms")...).Wait()
		}
		if test.ending != "" {
			status, stderr := run(args...)
			if status != 1 || !strings.Contains(stderr, test.want) || !strings.HasSuffix(stderr, test.ending+"\n") {
				t.Errorf("%s: status %d: %s", test.args, status, stderr)
			}
		}
		if test.ending == instead {
			args = append(args, "--at", "tc")
		}
		if test.ending == instead || test.ending == "" {
			if status, stderr := run(args...); status != 0 {
				t.Errorf("%v: status %d: %s", args, status, stderr)
			}
		}
	}
}
