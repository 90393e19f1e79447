package ring

import (
	"testing"

	"github.com/xdpcap/xdpcap/capture/packet"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// The ring of a CPU that has gone is read to its end and given back. The others stay.
func TestRingsGone(t *testing.T) {
	t.Parallel()
	data := packetOf(60, 1)
	record := func(ns uint64) []byte { return NewRecord(data, ns).Raw(data) }
	gone, stays := &List{Records: [][]byte{record(1), record(2)}}, &List{}
	m := NewLists(gone, stays).New(Options{})
	testnet.Must(t, m.Refresh())
	gone.Gone = true
	for _, want := range []int{2, 1, 0} { // records that are left before each look at the rings
		testnet.Must(t, m.Refresh())
		m.Gather(10)
		if ready := m.IsReady(); ready != (want > 0) || gone.Closed != (want == 0) {
			t.Fatalf("%d records are left: ready %v, closed %v", want, ready, gone.Closed)
		}
		m.Next(make([]packet.Packet, 1))
	}
	if len(m.cursors) != 1 || stays.Closed {
		t.Errorf("%d rings are there, and the one that stays is closed: %v", len(m.cursors), stays.Closed)
	}
}
