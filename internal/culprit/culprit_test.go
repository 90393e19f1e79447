package culprit

import (
	"testing"
	"time"
)

// Losses in two functions are two results, even if each function lost the same number of packets:
// the second one may have other culprits.
func TestResultOfFunction(t *testing.T) {
	t.Parallel()
	f := &Finder{found: make(map[causeKey]*result), began: time.Now()}
	find := func(function string) []Evidence {
		return f.Find(Loss{Reason: "SOCKET_RCVBUFF", Function: function, Packets: 3, All: 3}, nil)
	}
	find("udp_queue_rcv_one_skb")
	for _, r := range f.found {
		r.evidence = []Evidence{{Text: "of IPv4"}}
	}
	for _, e := range find("udpv6_queue_rcv_one_skb") {
		if e.Text == "of IPv4" {
			t.Errorf("a loss of IPv6 has the culprit %q", e.Text)
		}
	}
	if got := find("udp_queue_rcv_one_skb"); len(got) != 1 || got[0].Text != "of IPv4" {
		t.Errorf("a loss with no more packets was searched again: %v", got)
	}
}
