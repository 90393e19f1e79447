package capture

import (
	"errors"
	"testing"

	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/capture/internal/ring"
	"github.com/xdpcap/xdpcap/capture/internal/watch"
)

// A heldUp session loses packets while its output has the second one in hand.
type heldUp struct {
	*Session
	memory
	hook          *stillHook
	ring          *ring.List
	told          chan *Loss
	held, release chan struct{}
	ended         chan error
}

func holdUp(t *testing.T) *heldUp {
	t.Helper()
	u := &heldUp{
		hook: hookWithOne(),
		told: make(chan *Loss, 10),
		held: make(chan struct{}), release: make(chan struct{}),
		ended: make(chan error, 1),
	}
	u.ring = &ring.List{Records: [][]byte{u.record()}}
	u.Session = openStill(t, Options{Buffer: MinBuffer, Notice: func(err error) {
		var loss *Loss
		errors.As(err, &loss)
		u.told <- loss
	}}, ring.NewLists(u.ring).New, u.hook)
	go func() {
		_, err := u.Run(t.Context(), u)
		u.ended <- err
	}()
	<-u.held
	return u
}

func (u *heldUp) record() []byte {
	packet := packetOf(60, 1)
	return ring.NewRecord(packet, 1).Raw(packet)
}

func (u *heldUp) Write(packets []Packet) error {
	if len(u.packets) == 0 {
		u.ring.Records = [][]byte{u.record()}
	} else {
		close(u.held)
		<-u.release
	}
	return u.memory.Write(packets)
}

// count sets what the programs have counted.
func (u *heldUp) count(t *testing.T, lost, sampled uint64) {
	t.Helper()
	u.hook.account = kernel.SamplerAccount{Seen: lost + sampled, Lost: lost, Sampled: sampled}
	must(t, u.hook.Attach())
}

// end ends the session, and expects this loss, without its times, and no other one.
func (u *heldUp) end(t *testing.T, want *Loss) {
	t.Helper()
	got := <-u.told
	close(u.release)
	u.Stop()
	must(t, <-u.ended)
	if got.Elapsed <= 0 || got.Rate <= 0 || len(got.Sources) != 1 || len(u.told) > 0 {
		t.Errorf("%v; %d other losses", got, len(u.told))
	}
	got.Elapsed, got.Rate, got.Sources, want.Buffer = 0, 0, nil, MinBuffer
	same(t, want, got)
}

// The first loss is told once, while the session runs.
func TestLoss(t *testing.T) {
	t.Parallel()
	u := holdUp(t)
	u.count(t, 1000, 2)
	u.end(t, &Loss{Lost: 1000, Wanted: 1002, Size: 60, Cause: Burst, Enough: 4 * MinBuffer})
}

// A loss that goes on while the output has the packets is the output's.
func TestLossOfOutput(t *testing.T) {
	t.Parallel()
	u := holdUp(t)
	u.monitor.Close() // it looks by the clock
	w := u.newFirstLoss()
	u.count(t, 1000, 2)
	w.Check(false)
	w.Began.At = w.Began.At.Add(-watch.LossInterval)
	u.count(t, 3000, 2002)
	w.Check(false)
	u.end(t, &Loss{Lost: 3000, Wanted: 5002, Size: 60, Cause: SlowOutput, Room: 0.5})
}

// A loss is of the source that had it, also where it has gone before the notice, and where another
// one has its slot by then.
func TestLossOfGone(t *testing.T) {
	t.Parallel()
	for name, next := range map[string][]string{"nobody has its slot": nil, "another one has its slot": {"next"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var loss *Loss
			o := Options{Patterns: []string{"absent*"}, Notice: func(err error) { errors.As(err, &loss) }}
			s := openStill(t, o, (&ring.Lists{Number: 1}).New)
			s.monitor.Close()
			w := s.newFirstLoss()
			z := slotZero{s.roster, s.sampler}
			z.comeFirst(t, "gone")
			z.countFirst(t, kernel.SamplerAccount{Seen: 10, Lost: 10})
			w.Check(false)
			z.goFirst(t)
			for _, name := range next {
				z.comeFirst(t, name)
			}
			if over := w.Check(false); !over || loss == nil {
				t.Fatal("the loss is not told")
			}
			if len(loss.Sources) != 1 || loss.Sources[0].Name != "gone" || loss.Lost != 10 {
				t.Errorf("%d lost, by %+v", loss.Lost, loss.Sources)
			}
		})
	}
}
