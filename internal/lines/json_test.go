package lines

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/xdpcap/xdpcap/capture"
)

var description = capture.Description{
	Sources: []capture.Source{
		{Name: "eth0"},
		{Name: "/sys/fs/bpf/\"a\"\n\xff", Hook: capture.Exit, Target: capture.Program{Name: "balancer"}},
		{Name: "eth0", Hook: capture.Egress},
		{Name: "veth0", Pod: capture.Pod{Namespace: "default", Name: "web-1"}},
	},
	OutletName:   func(to capture.Outlet) string { return []string{"", "eth0", "eth1", "eth\"1"}[to] },
	ReasonName:   func(_ uint16, f *capture.Facts) string { return strings.Repeat("R", int(f.Reason)) },
	LocationName: func(at capture.Location) string { return strings.Repeat("l", int(at)) },
}

// tcp is a TCP segment from 192.0.2.1:443 to 198.51.100.2:12345.
var tcp = []byte{
	0x02, 0, 0, 0, 0, 0xfe, 0x02, 0, 0, 0, 0, 0x0a, 0x08, 0x00,
	0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 192, 0, 2, 1, 198, 51, 100, 2,
	0x01, 0xbb, 0x30, 0x39, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x12, 0, 0, 0, 0, 0, 0,
}

// The lines are these, to the byte: others read them by their keys.
func TestLines(t *testing.T) {
	t.Parallel()
	tagged := append(append(bytes.Clone(tcp[:12]), 0x88, 0xa8, 0x20, 0x64, 0x81, 0x00, 0x00, 0x07), tcp[12:]...)
	fragment := bytes.Clone(tcp)
	fragment[20] |= 0x20
	for _, test := range []struct {
		name   string
		source uint16
		data   []byte
		facts  capture.Facts
		want   string
	}{
		{"tcp", 1, tagged, capture.Facts{WireLen: 1500, Time: 1_790_000_000_000_000_001, Verdict: capture.Tx, To: 3, Queue: 3, ID: math.MaxUint64, Dropped: 5, Weight: 1000, GSOSize: 1448, RunTime: 250, Reason: 2, Location: 3},
			`{"time":"2026-09-21T14:13:20.000000001Z","interface":"/sys/fs/bpf/\"a\"\n` + `\ufffd` + `","direction":"in","hook":"exit","program":"balancer",` +
				`"verdict":"tx","queue":3,"id":18446744073709551615,"lost_before":5,"length":1500,"captured":62,"weight":1000,"to":"eth\"1","reason":"RR","location":"lll","gso_size":1448,"run_time_ns":250,` +
				`"source_mac":"02:00:00:00:00:0a","destination_mac":"02:00:00:00:00:fe","vlans":[100,7],"family":"ipv4","protocol":"tcp","source":"192.0.2.1","source_port":443,` +
				`"destination":"198.51.100.2","destination_port":12345,"tcp_flags":["syn","ack"],"community_id":"1:AoQee0n+by81nmtojrQZ1FLO0d0="}`},
		{"fragment", 0, fragment, capture.Facts{WireLen: 54, Weight: 1, Time: 1_790_000_000_999_999_999},
			`{"time":"2026-09-21T14:13:20.999999999Z","interface":"eth0","direction":"in","hook":"xdp",` +
				`"queue":0,"id":0,"lost_before":0,"length":54,"captured":54,` +
				`"source_mac":"02:00:00:00:00:0a","destination_mac":"02:00:00:00:00:fe","family":"ipv4","protocol":"tcp","source":"192.0.2.1","destination":"198.51.100.2"}`},
		{"unknown", 0, append(bytes.Clone(tcp[:12]), 0x0f, 0x0f), capture.Facts{},
			`{"time":"1970-01-01T00:00:00.000000000Z","interface":"eth0","direction":"in","hook":"xdp",` +
				`"queue":0,"id":0,"lost_before":0,"length":0,"captured":14,` +
				`"source_mac":"02:00:00:00:00:0a","destination_mac":"02:00:00:00:00:fe","family":"other","protocol":"0x0f0f"}`},
		{"sent", 2, tcp[:5], capture.Facts{},
			`{"time":"1970-01-01T00:00:00.000000000Z","interface":"eth0","direction":"out","hook":"egress",` +
				`"id":0,"lost_before":0,"length":0,"captured":5}`},
		{"pod", 3, tcp[:5], capture.Facts{},
			`{"time":"1970-01-01T00:00:00.000000000Z","interface":"veth0","namespace":"default","pod":"web-1","direction":"in","hook":"xdp",` +
				`"queue":0,"id":0,"lost_before":0,"length":0,"captured":5}`},
		{"dropped by a program", 1, tcp[:5], capture.Facts{Verdict: capture.Drop, Reason: 4},
			`{"time":"1970-01-01T00:00:00.000000000Z","interface":"/sys/fs/bpf/\"a\"\n` + `\ufffd` + `","direction":"in","hook":"exit","program":"balancer",` +
				`"verdict":"drop","queue":0,"id":0,"lost_before":0,"length":0,"captured":5,"reason":"RRRR"}`},
		{"lost at an interface", 0, tcp[:5], capture.Facts{Reason: 2, Location: 3, To: 2},
			`{"time":"1970-01-01T00:00:00.000000000Z","interface":"eth0","direction":"in","hook":"xdp",` +
				`"queue":0,"id":0,"lost_before":0,"length":0,"captured":5,"reason":"RR","location":"lll","device":"eth1"}`},
		{"cut", 0, tcp[:5], capture.Facts{},
			`{"time":"1970-01-01T00:00:00.000000000Z","interface":"eth0","direction":"in","hook":"xdp",` +
				`"queue":0,"id":0,"lost_before":0,"length":0,"captured":5}`},
	} {
		line := NewJSONEncoder(&description, nil).Append(nil, &capture.Packet{Facts: &test.facts, Source: test.source, Data: test.data})
		if diff := cmp.Diff(test.want+"\n", string(line)); diff != "" {
			t.Errorf("%s: %s", test.name, diff)
		}
	}
}

// The second and the outlet that an encoder caches do not appear in the next line if it has other
// ones. Each flag of TCP has its name.
func TestLinesFollow(t *testing.T) {
	t.Parallel()
	var packets []capture.Packet
	for i, flag := range []byte{1, 2, 4, 8, 16, 32, 64, 128} {
		segment := bytes.Clone(tcp)
		segment[47] = flag
		packets = append(packets, capture.Packet{Data: segment, Facts: &capture.Facts{Time: int64(i/2) * 1e9, To: []capture.Outlet{1, 0, 2, 1}[i%4]}})
	}
	e, text := NewJSONEncoder(&description, nil), []byte(nil)
	for i := range packets {
		text = e.Append(text, &packets[i])
	}
	type keys struct {
		Time, To string
		Flags    []string `json:"tcp_flags"`
	}
	var got []keys
	for line := range bytes.Lines(text) {
		var k keys
		if err := json.Unmarshal(line, &k); err != nil {
			t.Fatal(err)
		}
		got = append(got, k)
	}
	second := func(n string) string { return "1970-01-01T00:00:0" + n + ".000000000Z" }
	want := []keys{
		{second("0"), "eth0", []string{"fin"}}, {second("0"), "", []string{"syn"}},
		{second("1"), "eth1", []string{"rst"}}, {second("1"), "eth0", []string{"psh"}},
		{second("2"), "eth0", []string{"ack"}}, {second("2"), "", []string{"urg"}},
		{second("3"), "eth1", []string{"ece"}}, {second("3"), "eth0", []string{"cwr"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Any packet becomes one line of JSON that is not longer than a line may be, without allocating.
func FuzzAppend(f *testing.F) {
	f.Add(make([]byte, 60), int64(0), uint64(1))
	f.Add(tcp, int64(1_790_000_000_999_999_999), uint64(math.MaxUint64))
	f.Add(bytes.Repeat(append(bytes.Clone(tcp[:12]), 0x81, 0, 0xff, 0xff), 40)[:200], int64(-1), uint64(7))
	v6 := append(bytes.Clone(tcp[:12]), 0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, 0, 1)
	f.Add(append(v6, bytes.Repeat([]byte{0xab, 0xcd}, 60)...), int64(-1), uint64(7))
	e := NewJSONEncoder(&description, nil)
	f.Fuzz(func(t *testing.T, frame []byte, ns int64, n uint64) {
		p := capture.Packet{Data: frame, Source: uint16(n & 1), Facts: &capture.Facts{
			Time: ns, WireLen: uint32(n), Queue: uint32(n), ID: n, Dropped: n, Verdict: capture.Redirect, To: 2, GSOSize: uint16(n >> 1),
			Weight: uint32(n), RunTime: uint32(n), Reason: 160, Location: 160, Hash: uint32(n), HashKind: capture.SoftwareHash, ClockSetBack: time.Duration(n >> 1),
		}}
		room := e.Room(&p)
		line := e.Append(nil, &p)
		if !json.Valid(line) || bytes.IndexByte(line, '\n') != len(line)-1 || len(line) > room {
			t.Errorf("%d bytes, at most %d: %s", len(line), room, line)
		}
	})
}
