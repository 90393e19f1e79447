package capture

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A rate is that of the last second, and fires once until it has fallen. Serial, because it counts
// allocations.
func TestRateWindow(t *testing.T) {
	trigger, need, err := parseTrigger("drop>3/s", filter.Options{})
	if err != nil || need != needVerdict {
		t.Fatalf("%v, %v", need, err)
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

// A run time fires from its limit on, and a rate of such packets after so many within a second.
func TestTriggerSlower(t *testing.T) {
	t.Parallel()
	p, from := capture.Packet{Facts: new(capture.Facts)}, new(capture.Source)
	for _, test := range []struct {
		text  string
		times []uint32 // of packets, in ns
		fires int      // the first packet that fires; -1 = none
	}{
		{"slower:5us", []uint32{0, 4999, 5000}, 2},
		{" slower:4.999us ", []uint32{0, 4999}, 1},
		{"slower:1ns", []uint32{0, 0}, -1},
		{"slower:4.294967295s", []uint32{math.MaxUint32 - 1, math.MaxUint32}, 1},
		{"slower:5us>1/s", []uint32{5000, 4999, 5000}, 2},
		{"slower:5us > 2/s", []uint32{5000, 4999, 5000}, -1},
	} {
		trigger, need, err := parseTrigger(test.text, filter.Options{})
		if err != nil || need != needRunTime || trigger.Name != test.text {
			t.Errorf("%s: %v, %v", test.text, need, err)
			continue
		}
		for i, ran := range test.times {
			p.RunTime = ran
			if got := trigger.Fires(&p, from); got != (i == test.fires) {
				t.Errorf("%s: fires: %v for the packet %d, of %d ns", test.text, got, i, ran)
			}
		}
	}
	for _, text := range []string{"slower:0", "slower:-5us", "slower:5", "slower:", "slower:4.3s", "slower:soon>5/s"} {
		want := text + ": the time must be above zero and at most 4.294967295s, with its unit: slower:5us"
		if _, _, err := parseTrigger(text, filter.Options{}); err == nil || err.Error() != want {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, _, err := parseTrigger("slower:5us>5", filter.Options{}); err == nil || err.Error() != "slower:5us>5: a rate is a number of packets per second: drop>1000/s" {
		t.Error(err)
	}
}

// A trigger of no words is refused: as a filter it would fire at every packet.
func TestTriggerEmpty(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", " "} {
		if _, _, err := parseTrigger(text, filter.Options{}); err == nil || !strings.HasSuffix(err.Error(), " is none of these: "+triggerHelp) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A trigger knows the packets that are sent.
func TestTriggerOutbound(t *testing.T) {
	t.Parallel()
	trigger, _, err := parseTrigger("outbound and greater 60", filter.Options{})
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

// The reasons of a trigger are the kernel's, and any of them counts.
func TestTriggerReasons(t *testing.T) {
	t.Parallel()
	numbers, err := capture.ParseReasons("NO_SOCKET", "SOCKET_RCVBUFF", "TCP_CSUM")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		text string
		want [3]bool // with a packet for each reason, one after the other
	}{
		{"reason:NO_SOCKET", [3]bool{true, false, false}},
		{"reason: no_socket , SKB_DROP_REASON_SOCKET_RCVBUFF", [3]bool{true, true, false}},
		{"reason:NO_SOCKET,SOCKET_RCVBUFF > 1/s", [3]bool{false, true, false}},
		{"reason:TCP_CSUM>0/s", [3]bool{false, false, true}},
	} {
		trigger, need, err := parseTrigger(test.text, filter.Options{})
		if err != nil || need != needReason || trigger.Name != test.text {
			t.Fatalf("%+v, %v, %v", trigger, need, err)
		}
		for i, r := range numbers {
			p := capture.Packet{Facts: &capture.Facts{Reason: r, Location: 1}}
			if got := trigger.Fires(&p, new(capture.Source)); got != test.want[i] {
				t.Errorf("%s: fires at packet %d: %v", test.text, i, got)
			}
		}
	}
	fires, _, err := parseTrigger("reason:NO_SOCKET", filter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, atXDP := range []capture.Facts{{Reason: numbers[0]}, {Reason: numbers[0], Location: 1, Verdict: capture.Redirect}} {
		if fires.Fires(&capture.Packet{Facts: &atXDP}, nil) {
			t.Errorf("it fires at %+v, whose reason is of another kind", atXDP)
		}
	}
}

// A trigger about retransmissions counts how far the kernel's counter rose, read at most ten times
// a second.
func TestTriggerRetransmits(t *testing.T) {
	t.Parallel()
	counter, reads := uint64(100), 0
	r := retransmits{before: 100, read: func() (uint64, error) {
		reads++
		return counter, nil
	}}
	w := rateWindow{limit: 10, count: r.since}
	for i, test := range []struct {
		at      time.Duration
		counter uint64
		fires   bool
	}{
		{10 * time.Second, 105, false},
		{10*time.Second + 50*time.Millisecond, 150, false}, // too early to read
		{10*time.Second + 100*time.Millisecond, 111, true},
		{10*time.Second + 200*time.Millisecond, 120, false}, // it is still above
		{12 * time.Second, 120, false},
		{12500 * time.Millisecond, 131, true},
	} {
		counter = test.counter
		p := capture.Packet{Facts: &capture.Facts{Time: int64(test.at)}}
		if got := w.fires(&p, nil); got != test.fires {
			t.Errorf("packet %d fires: %v", i, got)
		}
	}
	if reads != 5 {
		t.Errorf("%d reads", reads)
	}
	for _, text := range []string{"retransmit", "retransmit > 100/s"} {
		if trigger, need, err := parseTrigger(text, filter.Options{}); err != nil || need != needNothing || trigger.Name != text {
			t.Errorf("%s: %+v, %v, %v", text, trigger, need, err)
		}
	}
}

// A trigger with a mistake is refused, and is no filter.
func TestTriggerMistakes(t *testing.T) {
	t.Parallel()
	const rate = ": a rate is a number of packets per second: drop>1000/s"
	for _, test := range []struct{ text, want string }{
		{"reason:NO_SOKET", `reason:NO_SOKET: reason "NO_SOKET": this kernel has none of that name: did you mean NO_SOCKET?`},
		{"reason:NO_SOCKET,TCP_CSUN>5/s", `did you mean TCP_CSUM?`},
		{"reason:", `reason "": this kernel has none of that name`},
		{"reason:NO_SOCKET>", rate},
		{"lost>", rate},
		{"drop>=5/s", rate},
	} {
		if _, _, err := parseTrigger(test.text, filter.Options{}); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", test.text, err, test.want)
		}
	}
}

// A filter as a trigger finds tunnels at the same port as the capture's own filter.
func TestTriggerInTunnel(t *testing.T) {
	t.Parallel()
	const port = 5000
	frame := testnet.TxToRx().UDP(1000, port, append([]byte{8, 0, 0, 0, 0, 0, 5, 0}, testnet.UDPFrame(64, 0)...))
	for want, of := range map[bool]filter.Options{false: {}, true: {VXLANPort: port}} {
		trigger, _, err := parseTrigger("inner udp", of)
		if err != nil {
			t.Fatal(err)
		}
		if got := trigger.Fires(&capture.Packet{Facts: &capture.Facts{WireLen: uint32(len(frame))}, Data: frame}, &capture.Source{Hook: capture.XDP}); got != want {
			t.Errorf("fires: %v with %+v", got, of)
		}
	}
}
