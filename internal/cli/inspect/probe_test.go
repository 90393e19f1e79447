package inspect

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/support"
)

func fixedReport() *ProbeReport {
	on, off, limit, paranoid, clock := true, false, uint64(8<<20), 3, "/dev/ptp0"
	refused := support.Check{Key: "fentry", Answer: support.No, Reason: "this kernel refuses fentry and fexit programs " +
		"(operation not permitted) despite the capabilities", Remedy: "use another kernel; --hook works without them"}
	beside := refused
	beside.Key = support.FeatureBeside
	told := &support.Report{
		Kernel:     support.Kernel{Release: "6.1.0", Machine: "x86_64", Checks: support.Checks{{Key: "btf", Answer: support.Yes}, refused}},
		Privileges: support.Privileges{Held: []string{"CAP_BPF"}, Missing: []string{"CAP_NET_ADMIN"}, Memlock: &limit, Paranoid: &paranoid, Landlock: 7},
		Interface: &support.Interface{Name: "eth0", Driver: "veth", Type: "ether", Up: true, MTU: 1500, LRO: &off, VLAN: &on, Filter: &on,
			Native: support.Check{Answer: support.Yes, Reason: "the driver reports it"}, Kfuncs: []string{"timestamp", "hash"}, Clock: &clock,
			Program: &support.AttachedProgram{ID: 7, Name: "firewall", Mode: "native", Traceable: refused}},
		Features: support.Checks{{Key: support.FeatureNative, Answer: support.Yes}, beside},
	}
	return &ProbeReport{told, support.Checks{{Key: "card", Answer: support.Yes, Reason: "by the driver"}, {Key: "af_xdp", Answer: support.No, Reason: "no sockets"}}}
}

func TestProbeTable(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := writeProbe(&b, fixedReport(), 80, false); err != nil {
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
	if err := writeProbe(&b, told, 80, true); err != nil || strings.Contains(b.String(), "rxvlan off") || !strings.Contains(b.String(), "puts them back") {
		t.Errorf("where the driver tells tags: %v, %s", err, b.String())
	}
}

func TestProbeKeys(t *testing.T) {
	t.Parallel()
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
		{got, "can_capture drops features interface kernel privileges"},
		{got["kernel"], "checks machine release"},
		{got["privileges"], "held landlock_abi memlock_bytes missing perf_event_paranoid user_namespace"},
		{got["interface"], "driver lro metadata_kfuncs mtu name native_xdp program ptp_clock rx_queues rx_vlan_filter rx_vlan_offload type up xdp_frags"},
	} {
		keys := strings.Join(slices.Sorted(maps.Keys(test.of.(map[string]any))), " ")
		if diff := cmp.Diff(test.want, keys); diff != "" {
			t.Error(diff)
		}
	}
}
