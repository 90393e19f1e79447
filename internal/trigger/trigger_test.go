package trigger

import (
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/capture"
)

// A rate is that of the last second, and fires once until it has fallen.
func TestRateWindow(t *testing.T) {
	trigger, needsVerdict, err := Parse("drop>3/s", false)
	if err != nil || !needsVerdict {
		t.Fatalf("%v, %v", needsVerdict, err)
	}
	p, from := capture.Packet{Facts: new(capture.Facts)}, new(capture.Source)
	at := func(ms int64, v capture.Verdict) bool {
		p.Time, p.Verdict = ms*1e6, v
		return trigger.Fires(&p, from)
	}
	for _, step := range []struct {
		ms   int64
		v    capture.Verdict
		want bool
	}{
		{0, capture.Drop, false}, {300, capture.Drop, false}, {600, capture.Drop, false}, {900, capture.Pass, false},
		{1001, capture.Drop, false}, // the first one is more than a second ago
		{1100, capture.Drop, true}, {1150, capture.Drop, false},
		{2500, capture.Pass, false}, // it has fallen
		{2501, capture.Drop, false}, {2502, capture.Drop, false}, {2503, capture.Drop, false}, {2504, capture.Drop, true},
		{100, capture.Drop, false}, // the clock was set back
		{101, capture.Drop, false}, {102, capture.Drop, false}, {103, capture.Drop, true},
	} {
		if got := at(step.ms, step.v); got != step.want {
			t.Errorf("at %d ms: %v", step.ms, got)
		}
	}
	if n := testing.AllocsPerRun(100, func() { at(200, capture.Drop) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// A trigger of no words is refused: as a filter it would fire at every packet.
func TestTriggerEmpty(t *testing.T) {
	for _, text := range []string{"", " "} {
		if _, _, err := Parse(text, false); err == nil || !strings.HasSuffix(err.Error(), " is none of these: "+Help) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A trigger knows the packets that are sent.
func TestTriggerOutbound(t *testing.T) {
	trigger, _, err := Parse("outbound and greater 60", false)
	if err != nil {
		t.Fatal(err)
	}
	for _, sent := range []bool{false, true} {
		from := capture.Source{Hook: capture.XDP}
		if sent {
			from.Hook = capture.Egress
		}
		if got := trigger.Fires(&capture.Packet{Facts: &capture.Facts{WireLen: 64}, Data: make([]byte, 64)}, &from); got != sent {
			t.Errorf("fires: %v for a packet that was sent: %v", got, sent)
		}
	}
}
