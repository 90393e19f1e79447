package capture

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// An alarmRing is empty at first. It notes which alarms it is asked for.
type alarmRing struct {
	listRing
	asked []alarm
	later [][]byte // the records that it has from the third look on
}

func (r *alarmRing) arm(at alarm) alarm {
	if r.asked = append(r.asked, at); len(r.asked) == 2 {
		r.records = r.later
	}
	return onPart // so that the reader looks again soon
}

// A wait that brings nothing is followed by one that the next packet ends, and a wait that brings
// packets by one in which they collect.
func TestAlarm(t *testing.T) {
	testnet.RequireRoot(t)
	packet := packetOf(60, 1)
	ring := &alarmRing{later: [][]byte{recordOf(sampleOf(packet, 1), packet)}}
	o, err := Options{Interfaces: []string{"unused"}, Count: 1}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	s, err := open(o, []hook{&stillHook{account: samplerAccount{Seen: 1, Sampled: 1}}}, listed(ring))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Run(t.Context(), new(memory)); err != nil {
		t.Fatal(err)
	}
	want := []alarm{onPart, onRecord, onRecord, onPart}
	if diff := cmp.Diff(want, ring.asked); diff != "" {
		t.Error(diff)
	}
}
