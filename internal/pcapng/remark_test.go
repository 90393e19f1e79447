package pcapng

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Remarks in comments are read again, in the words of files since 0.1. An outlet belongs to the
// packet's own verdict.
func TestRemarks(t *testing.T) {
	t.Parallel()
	added := []string{ // each time by a person after the capture
		"redirect to eth1", "redirect to the other team", "tx to nobody", "GSO size 1448", "GSO size 9000",
		"the wall clock was set back by 1s before this packet", "the wall clock was set back by 2s before this packet",
	}
	causes := []string{
		"thrown away: ", "thrown away:  in ", "thrown away: NO_SOCKET", "thrown away: NO_SOCKET in ", "thrown away: NO\"SOCKET in f", "thrown away: " + strings.Repeat("R", 161) + " in f",
		"thrown away: NO_SOCKET in 0xffffffff81000000", "thrown away: OTHER in g",
	}
	reasons := []string{"the program's reason: ", "the program's reason: NO\"BACKEND", "the program's reason: " + strings.Repeat("R", 161), "the program's reason: 77", "the program's reason: OTHER", "thrown away: OTHER in g"}
	for _, test := range []struct {
		packet   Packet
		comments []string
		want     Remarks
	}{
		{Packet{}, nil, Remarks{}},
		{Packet{Remarks: Remarks{Weight: 1}}, nil, Remarks{}},
		{Packet{Remarks: Remarks{Weight: 1<<32 - 1, GSOSize: 1448, RunTime: 250}}, []string{"weight 4294967295", "GSO size 1448", "the program ran 250 ns"}, Remarks{Weight: 1<<32 - 1, GSOSize: 1448, RunTime: 250}},
		{Packet{Remarks: Remarks{SetBack: 90 * time.Minute}}, []string{"the wall clock was set back by 1h30m0s before this packet"}, Remarks{SetBack: 90 * time.Minute}},
		{Packet{Verdict: 4, Fields: HasVerdict, Remarks: Remarks{Outlet: []byte("eth1")}}, []string{"redirect to eth1"}, Remarks{Outlet: []byte("eth1")}},
		{Packet{Verdict: 3, Fields: HasVerdict, Remarks: Remarks{Outlet: []byte("eth1")}}, []string{"tx to eth1"}, Remarks{Outlet: []byte("eth1")}},
		{Packet{Verdict: 4, Fields: HasVerdict, Comments: []string{"tx to eth1"}}, []string{"tx to eth1"}, Remarks{}},
		{Packet{Comments: []string{"redirect to eth1"}}, []string{"redirect to eth1"}, Remarks{}},
		{Packet{Comments: []string{"weight 4294967296", "weight 0", "weight -1", "weight ", "weights 5", "weight 7", "weight 8"}},
			[]string{"weight 4294967296", "weight 0", "weight -1", "weight ", "weights 5", "weight 7", "weight 8"}, Remarks{Weight: 7}},
		{Packet{Comments: []string{"the wall clock was set back by -5s before this packet"}}, []string{"the wall clock was set back by -5s before this packet"}, Remarks{}},
		{Packet{Verdict: 4, Fields: HasVerdict, Comments: added}, added, Remarks{Outlet: []byte("eth1"), GSOSize: 1448, SetBack: time.Second}},
		{Packet{Remarks: Remarks{Reason: []byte("reason 7 of subsystem 3"), Location: []byte("tcp_v4_rcv")}}, []string{"thrown away: reason 7 of subsystem 3 in tcp_v4_rcv"},
			Remarks{Reason: []byte("reason 7 of subsystem 3"), Location: []byte("tcp_v4_rcv")}},
		{Packet{Verdict: 1, Fields: HasVerdict, Remarks: Remarks{Reason: []byte("REASON_BLOCKED")}}, []string{"the program's reason: REASON_BLOCKED"}, Remarks{Reason: []byte("REASON_BLOCKED")}},
		{Packet{Remarks: Remarks{Device: []byte("eth0")}}, []string{"thrown away at eth0"}, Remarks{Device: []byte("eth0")}},
		{Packet{Comments: reasons}, reasons, Remarks{Reason: []byte("77")}},
		{Packet{Comments: causes}, causes, Remarks{Reason: []byte("NO_SOCKET"), Location: []byte("0xffffffff81000000")}},
	} {
		raw := AppendPacket(nil, &test.packet)
		block, err := ParseBlock(raw, false)
		if err != nil {
			t.Fatal(err)
		}
		var got Packet
		if err := ParsePacket(block, 0, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.comments, block.Comments()); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(test.want, got.Remarks); diff != "" {
			t.Errorf("%q: %s", test.comments, diff)
		}
	}
}
