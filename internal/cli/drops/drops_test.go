package drops

import (
	"strings"
	"testing"
	"time"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/drops"
)

// The table has the losses by stage, the largest first, their sum and what to do, and never a line
// that is too long.
func TestTable(t *testing.T) {
	long := strings.Repeat("long_", 20)
	now := drops.Counts{
		Losses: map[drops.Loss]drops.Tally{
			{Stage: drops.Stack, Reason: "NO_SOCKET", Where: "__udp4_lib_rcv"}:                   {Buffers: 3, Packets: 5, Bytes: 500},
			{Stage: drops.Stack, Reason: "IP_RPFILTER", Where: "ip_rcv", Device: "vlan7"}:        {Buffers: 7, Packets: 7, Bytes: 700},
			{Stage: drops.XDP, Reason: "drop", Where: "lb (id 7)"}:                               {Buffers: 1, Packets: 1},
			{Stage: drops.Socket, Reason: long, Where: long, Device: "abcdefghijklmno"}:          {Buffers: 1e11, Packets: 1e11},
			{Stage: drops.Egress, Reason: "redirect: " + long, Where: long, Device: "123456789"}: {Buffers: 1, Packets: 1},
		},
		Harmless: map[drops.Loss]drops.Tally{{Stage: drops.Stack, Reason: "OTHERHOST"}: {Buffers: 9, Packets: 9}},
		Missed:   4,
		Softnet:  drops.Softnet{Full: 1e11, Squeezed: 1e11},
	}
	i := interval{Now: now, Took: time.Second, Elapsed: time.Second}
	var b strings.Builder
	newReport(&Options{harmless: true}, "eth0", i).WriteTable(&b)
	for line := range strings.Lines(b.String()) {
		if len([]rune(line)) > frame.MaxColumns+1 {
			t.Errorf("%d columns: %s", len([]rune(line))-1, line)
		}
	}
	order := []string{"STAGE", "XDP", "IP_RPFILTER", "NO_SOCKET", "socket", "egress", "total", "harmless", "missed", "IP_RPFILTER: ", "NO_SOCKET: ",
		"netdev_max_backlog", "netdev_budget"}
	rest := b.String()
	for _, words := range order {
		_, after, found := strings.Cut(rest, words)
		if !found {
			t.Fatalf("no %q after what comes before it:\n%s", words, b.String())
		}
		rest = after
	}
	r := newReport(new(Options), "eth0", i)
	if r.Total.Packets != 1e11+14 || len(r.Losses) != 5 || r.Harmless != nil || r.Softnet != (Softnet{1e11, 1e11}) {
		t.Errorf("%+v", r)
	}
}

// Each advice is for a reason that comes before no shorter one, and fits in a line.
func TestAdvice(t *testing.T) {
	for _, a := range advice {
		if adviceFor(a.reason) != a.text {
			t.Errorf("%s has the advice of an earlier reason", a.reason)
		}
		if n := len(a.reason) + len(": ") + len(a.text); n > frame.MaxColumns {
			t.Errorf("%s: %d columns", a.reason, n)
		}
	}
}
