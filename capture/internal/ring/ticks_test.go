package ring

import (
	"math"
	"testing"
	"time"

	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// While a poll shows its stamp the order is final up to that, because more records may get it; not
// any more when the kernel's clock has ticked since.
func TestSharedRingPoll(t *testing.T) {
	t.Parallel()
	k, c := newFakeProgram(4096)
	r := c.ring.(*sharedRing)
	const now, poll = int64(time.Second), int64(999 * time.Millisecond)
	k.shared.Poll = uint64(poll)
	for _, test := range []struct {
		name string
		tick int64
		want int64
	}{
		{"which can go on", math.MaxInt64 / 2, poll},
		{"which has no more packets", -poll, now - int64(promptTime)},
	} {
		r.tick = test.tick
		if got := r.complete(now); got != test.want {
			t.Errorf("a poll %s: complete until %d, want %d", test.name, got, test.want)
		}
	}
	k.shared.Poll, r.tick = uint64(now), math.MaxInt64/2
	if got, want := r.complete(now), now-int64(promptTime); got != want {
		t.Errorf("a poll that has just begun: complete until %d, want %d", got, want)
	}
}

// Stamps of ticks are final up to the last one that was over, at a time that never steps back.
func TestTicks(t *testing.T) {
	t.Parallel()
	now, err := machine.Monotonic()
	testnet.Must(t, err)
	if got := (*ticks)(nil).before(now); got != now {
		t.Errorf("without ticks: %d, want %d", got, now)
	}
	var k ticks
	last := k.before(now + int64(time.Hour))
	tick, err := machine.LastTick()
	if err != nil || last == 0 || last > tick {
		t.Errorf("the tick %d, and %d a moment later; %v", last, tick, err)
	}
	if got := k.before(1); got != last {
		t.Errorf("when no tick is known to be over: %d, want %d", got, last)
	}
	m := Set{ticks: &k}
	until := m.Complete(now + int64(time.Hour))
	if tick, _ := machine.LastTick(); until < last || until > tick {
		t.Errorf("a set is complete until %d, want a tick from %d to %d", until, last, tick)
	}
}
