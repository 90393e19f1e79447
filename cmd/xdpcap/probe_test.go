package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// probe runs the command in the receiving namespace.
func probe(t *testing.T, pair *testnet.Pair, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := command(append([]string{"probe"}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := pair.Rx.Start(cmd); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

type probeJSON struct {
	CanCapture bool `json:"can_capture"`
	Interface  struct {
		Native  struct{ Answer string } `json:"native_xdp"`
		Program *struct {
			Mode      string
			Traceable struct{ Answer, Reason string }
		}
	}
	Features map[string]struct{ Answer, Reason string }
}

func TestProbe(t *testing.T) {
	pair := testnet.MustPair(t, testnet.PairOptions{})
	status, stdout, stderr := probe(t, pair, "-i", pair.RxName)
	if status != 0 || stderr != "" {
		t.Errorf("exit status %d: %s", status, stderr)
	}
	for line := range strings.Lines(stdout) {
		if len(line) > 101 {
			t.Errorf("wider than 100 columns: %q", line)
		}
	}
	_, stdout, _ = probe(t, pair, "-i", pair.RxName, "--json")
	free := decodeProbe(t, stdout)
	if !free.CanCapture || free.Interface.Program != nil || free.Features["capture_generic"].Answer != "yes" ||
		free.Features["capture_sent"].Answer != "yes" || !strings.HasPrefix(free.Features["capture_sent"].Reason, "by ") {
		t.Errorf("without a program: %s", stdout)
	}
	checkDetached(t, pair)

	v, err := testnet.AttachReceiver(pair.Rx, pair.RxName, xdp.Pass, testnet.ReceiverOptions{Count: true})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	status, stdout, stderr = probe(t, pair, "-i", pair.RxName, "--json")
	busy := decodeProbe(t, stdout)
	if busy.Interface.Program == nil || busy.Interface.Program.Mode != "native" || busy.Interface.Native.Answer != "yes" ||
		busy.Features["capture_native"].Answer != "no" || busy.Features["capture_generic"].Answer != "no" {
		t.Errorf("with a program: %s", stdout)
	}
	loads := testnet.ProbeFentry() == nil
	if (status == 0) != loads || busy.CanCapture != loads || (busy.Interface.Program.Traceable.Answer == "yes") != loads {
		t.Errorf("fentry loads: %v, but exit status %d, %s", loads, status, stdout)
	}
	if !loads && strings.Count(stderr, "\n") != 1 {
		t.Errorf("not one line: %q", stderr)
	}
	if attached(t, pair) == "" {
		t.Error("the program is gone")
	}
}

func decodeProbe(t *testing.T, s string) (p probeJSON) {
	t.Helper()
	if err := json.Unmarshal([]byte(s), &p); err != nil {
		t.Fatalf("%v: %s", err, s)
	}
	return p
}

func fixedReport() *support.Report {
	on, off, limit, paranoid, clock := true, false, uint64(8<<20), 3, "/dev/ptp0"
	refused := support.Check{Key: "fentry", Answer: support.No, Reason: "this kernel refuses fentry and fexit programs " +
		"(operation not permitted) despite the capabilities", Remedy: "use another kernel; --hook works without them"}
	beside := refused
	beside.Key = support.FeatureBeside
	return &support.Report{
		Kernel:     support.Kernel{Release: "6.1.0", Machine: "x86_64", Checks: support.Checks{{Key: "btf", Answer: support.Yes}, refused}},
		Privileges: support.Privileges{Held: []string{"CAP_BPF"}, Missing: []string{"CAP_NET_ADMIN"}, Memlock: &limit, Paranoid: &paranoid, Landlock: 7},
		Interface: &support.Interface{Name: "eth0", Driver: "veth", Type: "ether", Up: true, MTU: 1500, LRO: &off, VLAN: &on,
			Native: support.Check{Answer: support.Yes, Reason: "the driver reports it"}, Kfuncs: []string{"timestamp", "hash"}, Clock: &clock,
			Program: &support.AttachedProgram{ID: 7, Name: "firewall", Mode: "native", Traceable: refused}},
		Features: support.Checks{{Key: support.FeatureNative, Answer: support.Yes}, beside},
	}
}

func TestProbeTable(t *testing.T) {
	var b bytes.Buffer
	if err := writeProbe(&b, fixedReport()); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/probe.txt")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Error(diff)
	}
	b.Reset()
	told := fixedReport()
	told.Interface.Kfuncs = append(told.Interface.Kfuncs, "vlan_tag")
	if err := writeProbe(&b, told); err != nil || strings.Contains(b.String(), "rxvlan off") || !strings.Contains(b.String(), "puts them back") {
		t.Errorf("where the driver tells tags: %v, %s", err, b.String())
	}
}

func TestProbeKeys(t *testing.T) {
	var b bytes.Buffer
	if err := writeProbeJSON(&b, fixedReport()); err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		of   any
		want string
	}{
		{got, "can_capture features interface kernel privileges"},
		{got["kernel"], "checks machine release"},
		{got["privileges"], "held landlock_abi memlock_bytes missing perf_event_paranoid user_namespace"},
		{got["interface"], "driver lro metadata_kfuncs mtu name native_xdp program ptp_clock rx_queues rx_vlan_offload type up xdp_frags"},
	} {
		keys := strings.Join(slices.Sorted(maps.Keys(test.of.(map[string]any))), " ")
		if diff := cmp.Diff(test.want, keys); diff != "" {
			t.Error(diff)
		}
	}
}
