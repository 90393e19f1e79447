package sflow

import (
	"encoding/hex"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/lost"
)

// unhex reads hexadecimal digits with blanks between them and comments from # to the end of the
// line.
func unhex(t testing.TB, s string) []byte {
	t.Helper()
	var digits strings.Builder
	for line := range strings.Lines(s) {
		line, _, _ = strings.Cut(line, "#")
		for _, f := range strings.Fields(line) {
			digits.WriteString(f)
		}
	}
	b, err := hex.DecodeString(digits.String())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var (
	flow = Flow{
		Sequence: 7, Index: 0x01000002, Sampling: Sampling{Rate: 1000, Pool: 7000, Drops: 3},
		Input: Interface{Value: 0x01000002}, Output: Interface{Format: IsDiscard, Value: uint32(reasonXDP)},
		Packet: Packet{Data: []byte("abcde"), FrameLength: 64, Stripped: 4},
	}
	discard = Discard{
		Sequence: 8, Index: 2, Drops: 9, Input: 2, Reason: reasonXDP, Function: "guard", Linux: "XDP_DROP",
		Packet: Packet{Data: []byte("abcd"), FrameLength: 64, Stripped: 4, Tagged: true, Tag: 5<<13 | 0x123},
	}
	interfaceCounters = InterfaceCounters{
		Index: 2, Type: 6, Speed: 10e9, Direction: 1, Up: true, Running: true,
		In: Traffic{1 << 32, 1, 2, 3, 4, 5}, Out: Traffic{1<<32 + 1, 7, 8, 9, 10, 11}, UnknownIn: 6, Promiscuous: true,
	}
)

// TestGolden pins every byte: type, length, order and padding of each structure.
func TestGolden(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		append func(b []byte) []byte
		want   string
	}{
		{"header, IPv4", func(b []byte) []byte {
			return appendHeader(b, &Header{Agent: netip.MustParseAddr("192.0.2.1"), SubAgent: 2, Sequence: 3, Uptime: 4, Samples: 5})
		}, `00000005 00000001 c0000201 00000002 00000003 00000004 00000005`},
		{"header, IPv4 in IPv6", func(b []byte) []byte {
			return appendHeader(b, &Header{Agent: netip.MustParseAddr("::ffff:192.0.2.1")})
		}, `00000005 00000001 c0000201 00000000 00000000 00000000 00000000`},
		{"header, IPv6", func(b []byte) []byte {
			return appendHeader(b, &Header{Agent: netip.MustParseAddr("2001:db8::1")})
		}, `00000005 00000002 20010db8 00000000 00000000 00000001 00000000 00000000 00000000 00000000`},
		{"header, no address", func(b []byte) []byte { return appendHeader(b, &Header{}) },
			`00000005 00000001 00000000 00000000 00000000 00000000 00000000`},
		{"flow", func(b []byte) []byte { return appendFlow(b, &flow) }, `
			00000003 0000004c
			00000007 00000000 01000002     # sequence, source
			000003e8 00001b58 00000003     # rate, pool, drops
			00000000 01000002              # input
			00000001 0000016f              # output: discarded
			00000001                       # records
			00000001 00000018
			00000001 00000040 00000004 00000005 61626364 65000000`},
		{"discard", func(b []byte) []byte { return appendDiscard(b, &discard) }, `
			00000005 0000007c
			00000008 00000000 00000002     # sequence, source
			00000009 00000002 00000000     # drops, input, output
			0000016f 00000004              # reason, records
			00000001 00000014
			00000001 00000040 00000004 00000004 61626364
			000003e9 00000010
			00000123 00000005 00000123 00000005
			0000040e 0000000c
			00000005 6775617264 000000
			00000412 0000000c
			00000008 5844505f44524f50`},
		{"discard, bare", func(b []byte) []byte { return appendDiscard(b, &Discard{Reason: reasonUnknown}) }, `
			00000005 00000038
			00000000 00000000 00000000
			00000000 00000000 00000000
			00000100 00000001
			00000001 00000010
			00000001 00000000 00000000 00000000`},
		{"interface counters", func(b []byte) []byte {
			return appendCounters(b, 1, &interfaceCounters)
		}, `
			00000004 00000070
			00000001 00000000 00000002 00000001
			00000001 00000058
			00000002 00000006 00000002540be400 00000001 00000003
			0000000100000000 00000001 00000002 00000003 00000004 00000005
			00000006
			0000000100000001 00000007 00000008 00000009 0000000a 0000000b
			00000001`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.append([]byte("before"))
			if diff := cmp.Diff("before"+string(unhex(t, tt.want)), string(got)); diff != "" {
				t.Errorf("got\n%x\n%s", got[len("before"):], diff)
			}
		})
	}
}

// A longer name is cut between characters.
func TestLongNames(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, in string
		most     int
		want     string
	}{
		{"fits", "four", 4, "four"},
		{"cut", "abcde", 4, "abcd"},
		{"cut between characters", "abcé", 4, "abc"},
		{"nothing but the rest of a character", "\x80\x80\x80", 1, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(appendOpaque(nil, tt.want), appendText(nil, tt.in, tt.most)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Values that are written later are at the right offset, and no other byte has changed.
func TestSet(t *testing.T) {
	t.Parallel()
	other := flow
	other.Sampling = Sampling{Rate: 1, Pool: 1<<32 - 1, Drops: 0x12345678}
	got := appendFlow(nil, &flow)
	setSampling(got, other.Sampling)
	if diff := cmp.Diff(appendFlow(nil, &other), got); diff != "" {
		t.Error(diff)
	}

	otherDiscard := discard
	otherDiscard.Drops = 0x12345678
	got = appendDiscard(nil, &discard)
	setDrops(got, otherDiscard.Drops)
	if diff := cmp.Diff(appendDiscard(nil, &otherDiscard), got); diff != "" {
		t.Error(diff)
	}
}

// No sample exceeds its maximum length, and the bounds are tight.
func TestLengths(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100)
	packet := Packet{Data: []byte("a"), Tagged: true}
	tests := []struct {
		name      string
		got, want int
	}{
		{"flow", len(appendFlow(nil, &Flow{Packet: packet})) - 1, maxFlow},
		{"discard", len(appendDiscard(nil, &Discard{Packet: packet, Function: long, Linux: long})) - 1, maxDiscard},
		{"counters", len(appendCounters(nil, 0, &InterfaceCounters{})), countersLength},
	}
	for _, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("%s: %d bytes, want %d", tt.name, tt.got, tt.want)
		}
	}
}

// Serial, as everything that counts allocations must be.
func TestNoAllocations(t *testing.T) {
	b, discard := make([]byte, 0, 4096), discard
	n := testing.AllocsPerRun(100, func() {
		b = appendHeader(b[:0], &Header{Agent: netip.AddrFrom4([4]byte{192, 0, 2, 1})})
		b = appendFlow(b, &flow)
		discard.Reason = reasonOf("NO_SOCKET", "__udp4_lib_rcv")
		b = appendDiscard(b, &discard)
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// The table of reasons is ordered by number, and each reason of the kernel is in it once, by a name
// that the kernel has. The newest of them has come with Linux 6.17.
func TestReasons(t *testing.T) {
	t.Parallel()
	names, err := lost.KernelReasons(btf.NewCache())
	if err != nil {
		t.Fatal(err)
	}
	known := names.Names()
	isOld := !slices.Contains(known, "DUALPI2_STEP_DROP")
	seen := make(map[string]bool)
	for i, e := range equivalents {
		if i > 0 && e.reason <= equivalents[i-1].reason || e.name == "" || seen[e.name] {
			t.Errorf("%d %s comes after %d %s", e.reason, e.name, equivalents[max(i, 1)-1].reason, equivalents[max(i, 1)-1].name)
		}
		seen[e.name] = true
		for _, linux := range strings.Fields(e.linux) {
			if seen[linux] {
				t.Errorf("%s is there twice", linux)
			}
			seen[linux] = true
			if !isOld && !slices.Contains(known, linux) {
				t.Errorf("the kernel has no reason %s", linux)
			}
			if got := reasonOf(linux, "any_function"); got != e.reason {
				t.Errorf("%s is %d, want %d", linux, got, e.reason)
			}
		}
	}
	for _, tt := range []struct {
		linux, function string
		want            Reason
	}{
		{"NO_SOCKET", "__udp4_lib_rcv", 3},
		{"IP_INHDR", "ip_rcv_core", 275},
		{"IP_INHDR", "ip_forward", 257},
		{"IP_INHDR", "ip6_forward", 257},
		{"NETFILTER_DROP", "nf_hook_slow", 258},
		{"SOCKET_RCVBUFF", "udp_queue_rcv_one_skb", 259},
		{"NOT_SPECIFIED", "ip_forward", 256},
		{"reason 3 of subsystem 2", "", 256},
		{"", "", 256},
	} {
		if got := reasonOf(tt.linux, tt.function); got != tt.want {
			t.Errorf("%s in %s is %d, want %d", tt.linux, tt.function, got, tt.want)
		}
	}
}
