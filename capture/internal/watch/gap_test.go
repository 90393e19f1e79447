package watch

import (
	"testing"

	"github.com/xdpcap/xdpcap/capture/internal/probe"
	"github.com/xdpcap/xdpcap/capture/packet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// In the gap between two sources of an interface, packets pass by that neither has seen. What the
// first sees until it is detached, and the second before the gap is ended, is not among them.
func TestGap(t *testing.T) {
	t.Parallel()
	native := packet.Source{Name: "eth0", Hook: packet.XDP, Mode: packet.Native, Index: 2}
	generic := packet.Source{Name: "eth0", Hook: packet.XDP, Mode: packet.Generic, Index: 2}
	ingress := packet.Source{Name: "eth0", Hook: packet.Ingress, Index: 2}
	for _, test := range []struct {
		name             string
		from             packet.Source
		received         uint64 // from the beginning to the end of the gap
		first, next      uint64 // packets that the sources see meanwhile
		joined           uint64 // into those of the second
		isCard, isBridge bool
		want             uint64
		says             string
	}{
		{name: "some", from: native, received: 100, first: 3, next: 20, want: 77, says: " in which it received at least 77 packets"},
		{name: "none", from: native, received: 20, first: 3, next: 20, says: " in which it received at least 0 packets"},
		{name: "joined by GRO", from: native, received: 100, next: 2, joined: 60, want: 38, says: " in which it received at least 38 packets"},
		{name: "perhaps joined", from: generic, received: 100, first: 1, want: 36, says: " in which it received at least 36 packets"},
		{name: "a card", from: native, received: 100, isCard: true},
		{name: "a bridge", from: native, received: 100, isBridge: true},
	} {
		counts := xdp.Counts{Received: 1000, IsHardware: test.isCard}
		accounts := make([]probe.ProgramCounts, 2)
		accounts[0].Seen = 700
		if test.isBridge {
			test.from.Driver = "bridge"
		}
		w := Witness{
			read:    func(int) (xdp.Counts, error) { return counts, nil },
			listed:  func() []packet.Source { return []packet.Source{test.from, ingress} },
			gone:    func(bool) []int { return nil },
			counted: func() ([]probe.ProgramCounts, error) { return accounts, nil },
			notice:  func(err error) { t.Errorf("%s: notice: %v", test.name, err) },
			sources: make(map[int]*passing),
		}
		gap := w.beginGap(2, 0, w.waitForCounts())
		counts.Received += test.received
		accounts[0].Seen += test.first
		accounts[1].Seen, accounts[1].Joined = test.next, test.joined
		said := w.endGap(gap, 2, 1)
		w.Update()
		all := make(packet.Accounts, 2)
		w.Fill(all)
		if said != test.says || all[1].PassedBy != test.want || all[0].PassedBy != 0 {
			t.Errorf("%s: %q, %d and %d passed by", test.name, said, all[0].PassedBy, all[1].PassedBy)
		}
	}
}
