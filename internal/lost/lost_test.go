package lost

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"testing"

	"github.com/cilium/ebpf/btf"
	"github.com/google/go-cmp/cmp"
)

// A list is /proc/kallsyms.
type list struct{ *bytes.Reader }

func (list) Close() error { return nil }

func symbolsOf(text string) *Symbols {
	return &Symbols{file: list{bytes.NewReader([]byte(text))}, known: make(map[uint64]string), shared: new(sync.Map)}
}

var _ io.ReadSeekCloser = list{}

const functions = `0000000000000000 A percpu
ffffffff81000000 T start
ffffffff81000100 t veth_poll.part.0
ffffffff81000200 D data
ffffffff81000300 T ip_rcv
ffffffff81000300 T ip_rcv_alias
ffffffff81000400 T last
ffffffffc0000100 t ip6_mc_input	[ipv6]
ffffffffc0000200 t after	[ipv6]
ffffffff81000180 t veth_poll	[veth]
`

// Addresses have the name of the function that contains them, without the compiler's suffix.
func TestSymbols(t *testing.T) {
	t.Parallel()
	s := symbolsOf(functions)
	got := ""
	for _, address := range []uint64{0xffffffff81000100, 0xffffffff8100017f, 0xffffffff81000180, 0xffffffff810003ff, 0xffffffffc00001ff, 0xffffffff80000000} {
		got += s.Name(address) + " "
	}
	if want := "veth_poll veth_poll veth_poll ip_rcv_alias ip6_mc_input 0xffffffff80000000 "; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A cause that depends on a function is harmless only within that function's addresses, in all of
// its parts; other causes are harmless at any address.
func TestNoLosses(t *testing.T) {
	t.Parallel()
	names := Reasons{2: "NOT_SPECIFIED", 5: "OTHERHOST", 6: "NO_SOCKET", 7: "XDP", 7<<16 + 1: "OTHERHOST"}
	want := []NoLoss{
		{To: ^uint64(0), Reason: 5}, {To: ^uint64(0), Reason: 7<<16 + 1},
		{From: 0xffffffffc0000100, To: 0xffffffffc0000200, Reason: 2},
		{From: 0xffffffff81000100, To: 0xffffffff81000180, Reason: 7}, {From: 0xffffffff81000180, To: 0xffffffff81000300, Reason: 7},
		{From: 0xffffffff81000100, To: 0xffffffff81000180, Reason: 2}, {From: 0xffffffff81000180, To: 0xffffffff81000300, Reason: 2},
	}
	got, err := NoLosses(names, symbolsOf(functions), true)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	hidden := "0000000000000000 T veth_poll\n0000000000000000 T ip6_mc_input\n"
	got, err = NoLosses(names, symbolsOf(hidden), true)
	if diff := cmp.Diff(want[:2], got); err != nil || diff != "" {
		t.Errorf("where addresses are hidden: %v %s", err, diff)
	}
}

// A reason is found by its name; if there is none of that name, the error names the nearest one.
func TestParseReason(t *testing.T) {
	t.Parallel()
	names := Reasons{0: "SKB_NOT_DROPPED_YET", 2: "NOT_SPECIFIED", 3: "NO_SOCKET", 9: "TCP_CSUM", 3<<16 + 1: "TCP_CSUM"}
	for _, test := range []struct{ name, want string }{
		{"NO_SOCKET", "[3] <nil>"},
		{" no_socket", "[3] <nil>"},
		{"SKB_DROP_REASON_NO_SOCKET", "[3] <nil>"},
		{"TCP_CSUM", "[9 196609] <nil>"},
		{"tcp_sum", `[] reason "tcp_sum": this kernel has none of that name: did you mean TCP_CSUM?`},
		{"", `[] reason "": this kernel has none of that name; the kernel's include/net/dropreason-core.h has them, without SKB_DROP_REASON_`},
	} {
		numbers, err := names.Parse(test.name)
		if got := fmt.Sprint(numbers, err); got != test.want {
			t.Errorf("%q: %s, want %s", test.name, got, test.want)
		}
	}
	for range 50 { // a map of five is often in order by chance
		if diff := cmp.Diff([]string{"NOT_SPECIFIED", "NO_SOCKET", "TCP_CSUM"}, names.Names()); diff != "" {
			t.Fatal(diff)
		}
	}
	if got := names.Name(4) + ", " + names.Name(5<<16+7); got != "reason 4, reason 7 of subsystem 5" {
		t.Error(got)
	}
}

// The reasons of queues are a subsystem without a module since Linux 7.0: their names are those of
// the kernel's own BTF, and look like those that the core had before.
func TestReasonsOfQueues(t *testing.T) {
	t.Parallel()
	enum := func(name string, values ...btf.EnumValue) btf.Type {
		return &btf.Enum{Name: name, Size: 4, Values: values}
	}
	const qdisc = 3
	var builder btf.Builder
	for _, e := range []btf.Type{
		enum("skb_drop_reason", btf.EnumValue{Name: "SKB_DROP_REASON_NO_SOCKET", Value: 3}),
		enum("skb_drop_reason_subsys", btf.EnumValue{Name: "SKB_DROP_REASON_SUBSYS_OPENVSWITCH", Value: 2}, btf.EnumValue{Name: "SKB_DROP_REASON_SUBSYS_QDISC", Value: qdisc}),
		enum("qdisc_drop_reason", btf.EnumValue{Name: "QDISC_DROP_UNSPEC"}, btf.EnumValue{Name: "__QDISC_DROP_REASON", Value: qdisc << 16},
			btf.EnumValue{Name: "QDISC_DROP_GENERIC", Value: qdisc<<16 + 1}, btf.EnumValue{Name: "QDISC_DROP_OVERLIMIT", Value: qdisc<<16 + 2}),
	} {
		if _, err := builder.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := builder.Marshal(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := btf.LoadSpecFromReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	got, err := reasonsOf(spec, func(string) (*btf.Spec, error) { return nil, btf.ErrNotFound })
	want := Reasons{3: "NO_SOCKET", qdisc << 16: "QDISC_DROP_REASON", qdisc<<16 + 1: "QDISC_DROP_GENERIC", qdisc<<16 + 2: "QDISC_DROP_OVERLIMIT"}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
}
