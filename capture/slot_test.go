package capture

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/capture/internal/probe"
	"github.com/xdpcap/xdpcap/capture/internal/ring"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A named hook can always be attached, and has a source of this name.
type named struct {
	probe.Hook
	name string
}

func (h *named) Sources() []Source { return []Source{{Name: h.name}} }

func (h *named) Attach() error { return nil }

// A slotZero makes sources come and go that have slot 0.
type slotZero struct {
	*probe.Roster
	*probe.Sampler
}

// comeFirst makes a source of this name come.
func (z slotZero) comeFirst(t *testing.T, name string) {
	t.Helper()
	hooks := []probe.Hook{&named{name: name}}
	numbers, err := z.Reserve(hooks)
	must(t, err)
	if numbers[0] != 0 {
		t.Fatalf("numbers %d", numbers)
	}
	must(t, z.PrepareSlots(0, z.Slots(0), z.RecordLost))
	_, err = z.Add(hooks, numbers, probe.Origin{Arrival: 1})
	must(t, err)
}

// countFirst sets what the program in slot 0 has counted on the first CPU.
func (z slotZero) countFirst(t *testing.T, a kernel.SamplerAccount) {
	t.Helper()
	perCPU, err := z.PerCPU(0)
	must(t, err)
	perCPU[0] = a
	must(t, z.Maps[kernel.SamplerMapAccounts].Put(uint32(0), perCPU))
}

// goFirst makes the source in slot 0 go.
func (z slotZero) goFirst(t *testing.T) {
	t.Helper()
	z.Leave([]int{0}, 1)
	if retired, err := z.Retire(0, 2, Account{}); !retired || err != nil {
		t.Fatal(err)
	}
	z.Free([]int{0})
}

// Where a source has the slot of one that has gone, its first packet does not come after losses of
// that one, and no packet has the id of one of its packets.
func TestSlotReused(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	o, err := Options{Patterns: []string{"*"}}.withDefaults()
	must(t, err)
	r := probe.NewRoster(nil, o.slotsPerHook(), nil)
	slots, _ := r.Arrays()
	k, err := probe.New(o.probe(), r, ring.New(o.rings()))
	must(t, err)
	defer k.Close()
	z := slotZero{r, k}
	reader := probe.Reader{Roster: r, Ledger: probe.NewLedger(0, 0), Lost: ring.Losses{Slots: slots}, SourcesChange: true}
	since := func(cpu, dropped uint64) uint64 {
		t.Helper()
		f := Facts{ID: cpu << kernel.SamplerLimitID_CPU_SHIFT, Dropped: dropped}
		if _, ok := reader.SourceOf(0); !ok {
			t.Fatal("nobody has slot 0")
		}
		return reader.Lost.Since(0, &f)
	}
	z.comeFirst(t, "a")
	if lost := since(0, 3); lost != 3 {
		t.Errorf("%d lost before the first packet, want 3", lost)
	}
	z.countFirst(t, kernel.SamplerAccount{Seen: 12, Lost: 10})
	z.goFirst(t)
	z.comeFirst(t, "a")
	for i, want := range []uint64{0, 2} {
		if lost := since(0, 10+2*uint64(i)); lost != want {
			t.Errorf("%d lost before packet %d of the next source, want %d", lost, i, want)
		}
	}
	var passages []kernel.SamplerPassage
	must(t, k.Maps[kernel.SamplerMapPassages].Lookup(uint32(0), &passages))
	if n := passages[0].Packets; n != 12 {
		t.Errorf("the ids of a traced program begin after %d, want 12", n)
	}
}

// Only one goroutine at a time gives a notice, also while programs are loaded for an interface that
// has come.
func TestNoticesInTurn(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	ns, err := testnet.NewNamespace()
	must(t, err)
	defer ns.Close()
	var inside atomic.Int32
	o := Options{Patterns: []string{"none*"}, Notice: func(error) {
		if inside.Add(1) > 1 {
			t.Error("two notices at a time")
		}
		time.Sleep(time.Millisecond)
		inside.Add(-1)
	}}
	s := openAt(t, ns, o)
	var all sync.WaitGroup
	d := s.Description()
	for _, notice := range []func(error){s.notice, s.sampler.Options.Notice, d.Notice} {
		all.Go(func() {
			for range 10 {
				notice(errors.ErrUnsupported)
			}
		})
	}
	all.Wait()
}
