package capture

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/xdpcap/xdpcap/capture/internal/account"
	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/capture/internal/ring"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A seat is a hook with these sources, which can be attached or not.
type seat struct {
	hook
	names     []string
	failed    error
	attaching func() // nil = nothing happens meanwhile
}

func (s *seat) sources() (sources []Source) {
	for _, name := range s.names {
		sources = append(sources, Source{Name: name})
	}
	return sources
}

// noEnd ends seats, which need nothing for it.
func noEnd([]hook) error { return nil }

func (s *seat) attach() error {
	if s.attaching != nil {
		s.attaching()
	}
	return s.failed
}

// slotCounters are what the programs have counted in each slot.
type slotCounters map[int]account.Program

func (c slotCounters) read(slot int) (account.Program, error) { return c[slot], nil }

func (c slotCounters) add(slot int, seen, sent uint64) {
	a := c[slot]
	a.Seen, a.Sent = a.Seen+seen, a.Sent+sent
	c[slot] = a
}

// A slot is given to another source when all records of the former one were read. Each source has
// what was counted in its time.
func TestRoster(t *testing.T) {
	t.Parallel()
	r := newRoster(&Options{Patterns: []string{"*"}, Hooks: []Hook{Entry, Exit}}, nil)
	counts := make(slotCounters)
	come := func(want int, hooks ...hook) (numbers, sources []int) {
		t.Helper()
		numbers, err := r.reserve(hooks)
		if err != nil || len(numbers) != len(hooks) || numbers[0] != want {
			t.Fatalf("%d hooks have the numbers %d (%v), want %d and so on", len(hooks), numbers, err, want)
		}
		sources, err = r.add(hooks, numbers, 1, counts.read, noEnd)
		must(t, err)
		return numbers, sources
	}
	first, sources := come(0, &seat{names: []string{"a", "a2"}}, &seat{names: []string{"a3"}})
	same(t, []int{0, 1, 2}, sources)
	come(2, &seat{names: []string{"b"}})
	for slot, want := range []int{0, 1, 2, -1, 3, -1} {
		if got, came := r.tenant(slot); came != want+1 || got != max(want, 0) {
			t.Errorf("slot %d is of source %d, %d, want %d", slot, got, came, want)
		}
	}
	if _, came := r.tenant(1 << 15); came > 0 {
		t.Error("a slot that does not exist has a source")
	}
	counts.add(0, 10, 7)
	counts.add(1, 5, 5)
	if retired, err := r.retire(0, 100, Account{Captured: 7}, counts.read); retired || err != nil {
		t.Errorf("retired: %v, %v: its program may still run", retired, err)
	}
	const gone = 50
	r.leave(sources, gone)
	if retired, err := r.retire(0, gone, Account{Captured: 7}, counts.read); retired || err != nil {
		t.Errorf("retired: %v, %v: not all its records were read", retired, err)
	}
	for _, i := range sources {
		if retired, err := r.retire(i, gone+1, Account{Captured: counts[i].Sent}, counts.read); !retired || err != nil {
			t.Errorf("source %d: retired: %v, %v", i, retired, err)
		}
	}
	same(t, []int{0, 1, 2}, r.gone(false))
	same(t, []int{0, 1, 2}, r.departing())
	if again := r.departing(); again != nil {
		t.Errorf("sources %d have gone again", again)
	}
	r.free(first)
	come(0, &seat{names: []string{"c"}})
	counts.add(0, 100, 100)
	counts.add(4, 3, 0)
	all, err := r.accounts(counts.read)
	must(t, err)
	var got []string
	for i, a := range all {
		got = append(got, fmt.Sprintf("%s %d %d", r.source(i).Name, a.Seen, a.Sent))
	}
	same(t, []string{"a 10 7", "a2 5 5", "a3 0 0", "b 3 0", "c 100 100"}, got, "seen and sent")
	if source, came := r.tenant(0); came != 5 || source != 4 || r.usedSlots() != 5 {
		t.Errorf("slot 0 is of source %d, %d slots were used", source, r.usedSlots())
	}
}

// An interface to which no program could be attached becomes no source. If at least one was
// attached before another failed, it is a source that has gone.
func TestRosterFailures(t *testing.T) {
	t.Parallel()
	r := newRoster(&Options{Patterns: []string{"*"}}, nil)
	counts := make(slotCounters)
	refused := errors.New("refused")
	if sources, err := r.add([]hook{&seat{names: []string{"a"}, failed: refused}}, []int{0}, 1, counts.read, noEnd); !errors.Is(err, refused) || sources != nil {
		t.Errorf("sources %v, %v", sources, err)
	}
	if _, came := r.tenant(0); came > 0 || len(r.sources()) > 0 {
		t.Errorf("sources %v", r.sources())
	}
	sources, err := r.add([]hook{&seat{names: []string{"a"}}, &seat{names: []string{"b"}, failed: refused}}, []int{0, 1}, 1, counts.read, noEnd)
	if !errors.Is(err, refused) || len(sources) != 2 {
		t.Fatalf("sources %v, %v", sources, err)
	}
	r.leave(sources, 1)
	for _, i := range sources {
		if retired, err := r.retire(i, 2, Account{}, counts.read); !retired || err != nil {
			t.Errorf("source %d: %v, %v", i, retired, err)
		}
	}
	// One that goes right after its program was attached has seen packets, and its records come.
	brief := &seat{names: []string{"brief"}, failed: refused, attaching: func() { counts.add(3, 2, 1) }}
	if sources, err = r.add([]hook{brief}, []int{3}, 1, counts.read, noEnd); !errors.Is(err, refused) || len(sources) != 1 {
		t.Fatalf("sources %v, %v", sources, err)
	}
	if source, came := r.tenant(3); came == 0 || source != sources[0] {
		t.Errorf("its record is of source %d, %d", source, came)
	}
	r.leave(sources, 1)
	if retired, err := r.retire(sources[0], 2, Account{Captured: 1}, counts.read); !retired || err != nil {
		t.Errorf("%v, %v", retired, err)
	}
}

// Records that the reader does not find keep no slot: a source that has gone is retired, and they
// are lost. Those that arrived damaged are invalid in the end, whichever source they name.
func TestRosterUnread(t *testing.T) {
	t.Parallel()
	r := newRoster(&Options{Patterns: []string{"*"}}, nil)
	counts := make(slotCounters)
	l := account.NewLedger(2, 0)
	var sources []int
	for i := range 2 {
		own, err := r.add([]hook{&seat{names: []string{"a"}}}, []int{i}, 1, counts.read, noEnd)
		must(t, err)
		sources = append(sources, own...)
		counts.add(i, uint64(7+3*i), uint64(7+3*i))
		for range 7 {
			l.Take(i, 64)
		}
	}
	l.Reject(0) // it is of source 1, and names the other
	l.Publish()
	read := func() ([]account.Program, error) { return r.accounts(counts.read) }
	r.leave(sources, 1)
	for _, i := range sources {
		if retired, err := r.retire(i, 2, l.Read(i), counts.read); !retired || err != nil {
			t.Errorf("source %d: %v, %v", i, retired, err)
		}
	}
	present, err := l.Accounts(read)
	must(t, err)
	same(t, Accounts{
		{Seen: 8, Invalid: 1, Captured: 7, Bytes: 448},
		{Seen: 10, Lost: 3, Captured: 7, Bytes: 448},
	}, present, "when they have gone")
	programs, err := read()
	must(t, err)
	l.Close(programs)
	same(t, Accounts{
		{Seen: 7, Captured: 7, Bytes: 448},
		{Seen: 10, Lost: 2, Invalid: 1, Captured: 7, Bytes: 448},
	}, l.Final(), "at the end")
}

// Where interfaces come and go all day, and some of their records are never found, there is still
// room for the next ones.
func TestRosterDay(t *testing.T) {
	t.Parallel()
	const day, atOnce = 60_000, 10
	r := newRoster(&Options{Patterns: []string{"*"}}, nil)
	counts := make(slotCounters)
	var sources, numbers []int
	for i := range int64(day) {
		hooks := []hook{&seat{names: []string{"a"}}}
		taken, err := r.reserve(hooks)
		must(t, err)
		own, err := r.add(hooks, taken, 1, counts.read, noEnd)
		must(t, err)
		sources, numbers = append(sources, own...), append(numbers, taken...)
		counts.add(taken[0], 1, 1)
		if len(sources) < atOnce {
			continue
		}
		r.leave(sources[:1], i+1)
		found := Account{Captured: uint64(min(i%10, 1))} // of one in ten nothing is found
		if retired, err := r.retire(sources[0], i+2, found, counts.read); !retired || err != nil {
			t.Fatalf("source %d of %d stays: %v", sources[0], i+1, err)
		}
		r.free(numbers[:1])
		sources, numbers = sources[1:], numbers[1:]
	}
	if n := r.usedSlots(); n != atOnce {
		t.Errorf("%d slots were used, want %d", n, atOnce)
	}
}

// An interface comes with all its hooks or with none. The index of its last source has 16 bits, and
// each hook has a slot of its own.
func TestRosterFull(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name        string
		have, taken int // sources that have come, and hooks that are attached
		hooks       int
		sources     int // of each hook
		want        bool
	}{
		{"the last number", 0, maxComing - 1, 1, 1, true},
		{"one number is left for two hooks", 0, maxComing - 1, 2, 1, false},
		{"no number is left", 0, maxComing, 1, 1, false},
		{"the last sources", 65_531, 0, 4, 1, true},
		{"a source too many", 65_531, 0, 5, 1, false},
		{"the last sources, at entry and exit", 65_531, 0, 2, 2, true},
		{"a hook too many, at entry and exit", 65_531, 0, 3, 2, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRoster(&Options{Patterns: []string{"*"}, Hooks: []Hook{Entry, Exit}}, nil)
			r.all = make([]member, test.have)
			for i := range test.taken {
				r.taken[i] = true
			}
			var hooks []hook
			for range test.hooks {
				hooks = append(hooks, &seat{names: make([]string, test.sources)})
			}
			numbers, err := r.reserve(hooks)
			if (err == nil) != test.want || err == nil && len(numbers) != test.hooks {
				t.Errorf("numbers %d: %v", numbers, err)
			}
			taken := 0
			for _, is := range r.taken {
				if is {
					taken++
				}
			}
			if taken != test.taken+len(numbers) {
				t.Errorf("%d numbers are taken, of %d hooks", taken, test.taken+len(numbers))
			}
		})
	}
}

// Attaching to an interface that comes takes some 10 ms. Meanwhile a reader waits only if it meets
// a record of that interface.
func TestRosterWhileAttaching(t *testing.T) {
	t.Parallel()
	r := newRoster(&Options{Patterns: []string{"*"}}, nil)
	counts := make(slotCounters)
	begun, goOn, found := make(chan struct{}), make(chan struct{}), make(chan int)
	hooks := []hook{&seat{names: []string{"a"}, attaching: func() { close(begun); <-goOn }}}
	numbers, err := r.reserve(hooks)
	must(t, err)
	added := make(chan error)
	go func() {
		_, err := r.add(hooks, numbers, 1, counts.read, noEnd)
		added <- err
	}()
	<-begun
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		r.accounts(counts.read)
		r.sources()
		r.gone(false)
		r.cards()
	}()
	select {
	case <-asked:
	case <-time.After(10 * time.Second):
		t.Error("the reader waits until it is attached")
	}
	go func() {
		source, came := r.tenant(numbers[0])
		if came == 0 {
			source = -1
		}
		found <- source
	}()
	close(goOn)
	if err := <-added; err != nil {
		t.Error(err)
	}
	if source := <-found; source != 0 {
		t.Errorf("its record is of source %d, want 0", source)
	}
}

// comeFirst makes a source of this name come, which has slot 0.
func (k *sampler) comeFirst(t *testing.T, name string) {
	t.Helper()
	hooks := []hook{&seat{names: []string{name}}}
	numbers, err := k.roster.reserve(hooks)
	must(t, err)
	if numbers[0] != 0 {
		t.Fatalf("numbers %d", numbers)
	}
	must(t, k.prepareSlots(0))
	_, err = k.roster.add(hooks, numbers, 1, k.counted, noEnd)
	must(t, err)
}

// countFirst sets what the program in slot 0 has counted on the first CPU.
func (k *sampler) countFirst(t *testing.T, a kernel.SamplerAccount) {
	t.Helper()
	perCPU, err := k.perCPU(0)
	must(t, err)
	perCPU[0] = a
	must(t, k.maps[kernel.SamplerMapAccounts].Put(uint32(0), perCPU))
}

// goFirst makes the source in slot 0 go.
func (k *sampler) goFirst(t *testing.T) {
	t.Helper()
	k.roster.leave([]int{0}, 1)
	if retired, err := k.roster.retire(0, 2, Account{}, k.counted); !retired || err != nil {
		t.Fatal(err)
	}
	k.roster.free([]int{0})
}

// Where a source has the slot of one that has gone, its first packet does not come after losses of
// that one, and no packet has the id of one of its packets.
func TestSlotReused(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	o, err := Options{Patterns: []string{"*"}}.withDefaults()
	must(t, err)
	r := newRoster(&o, nil)
	k, err := newSampler(&o, r, ring.New(o.rings()))
	must(t, err)
	defer k.close()
	reader := reader{roster: r, ledger: account.NewLedger(0, 0), lost: ring.Losses{Slots: maxComing}, follows: true}
	since := func(cpu, dropped uint64) uint64 {
		t.Helper()
		f := Facts{ID: cpu << kernel.SamplerLimitID_CPU_SHIFT, Dropped: dropped}
		if _, ok := reader.sourceOf(0); !ok {
			t.Fatal("nobody has slot 0")
		}
		return reader.lost.Since(0, &f)
	}
	k.comeFirst(t, "a")
	if lost := since(0, 3); lost != 3 {
		t.Errorf("%d lost before the first packet, want 3", lost)
	}
	k.countFirst(t, kernel.SamplerAccount{Seen: 12, Lost: 10})
	k.goFirst(t)
	k.comeFirst(t, "a")
	for i, want := range []uint64{0, 2} {
		if lost := since(0, 10+2*uint64(i)); lost != want {
			t.Errorf("%d lost before packet %d of the next source, want %d", lost, i, want)
		}
	}
	var passages []kernel.SamplerPassage
	must(t, k.maps[kernel.SamplerMapPassages].Lookup(uint32(0), &passages))
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
	for _, notice := range []func(error){s.notice, s.sampler.options.notice, d.Notice} {
		all.Go(func() {
			for range 10 {
				notice(errors.ErrUnsupported)
			}
		})
	}
	all.Wait()
}
