package probe

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/capture/packet"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// equal fails the test if two values differ.
func equal(t *testing.T, want, got any, about ...any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(ProgramCounts{})); diff != "" {
		t.Errorf("%v (-want +got):\n%s", about, diff)
	}
}

// A seat is a hook with these sources, which can be attached or not.
type seat struct {
	Hook
	names     []string
	failed    error
	attaching func() // nil = nothing happens meanwhile
}

func (s *seat) Sources() (sources []packet.Source) {
	for _, name := range s.names {
		sources = append(sources, packet.Source{Name: name})
	}
	return sources
}

func (s *seat) Attach() error {
	if s.attaching != nil {
		s.attaching()
	}
	return s.failed
}

// slotCounters are what the programs have counted in each slot.
type slotCounters map[int]ProgramCounts

func (c slotCounters) Counted(slot int) (ProgramCounts, error) { return c[slot], nil }

// EndAll has nothing to do for seats.
func (c slotCounters) EndAll([]Hook) error { return nil }

func (c slotCounters) add(slot int, seen, sent uint64) {
	a := c[slot]
	a.Seen, a.Sent = a.Seen+seen, a.Sent+sent
	c[slot] = a
}

// A slot is given to another source when all records of the former one were read. Each source has
// what was counted in its time.
func TestRoster(t *testing.T) {
	t.Parallel()
	r := NewRoster(nil, 2, nil)
	counts := make(slotCounters)
	r.Programs = counts
	come := func(want int, hooks ...Hook) (numbers, sources []int) {
		t.Helper()
		numbers, err := r.Reserve(hooks)
		if err != nil || len(numbers) != len(hooks) || numbers[0] != want {
			t.Fatalf("%d hooks have the numbers %d (%v), want %d and so on", len(hooks), numbers, err, want)
		}
		sources, err = r.Add(hooks, numbers, Origin{Arrival: 1})
		testnet.Must(t, err)
		return numbers, sources
	}
	first, sources := come(0, &seat{names: []string{"a", "a2"}}, &seat{names: []string{"a3"}})
	equal(t, []int{0, 1, 2}, sources)
	come(2, &seat{names: []string{"b"}})
	for slot, want := range []int{0, 1, 2, -1, 3, -1} {
		if got, came := r.Tenant(slot); came != want+1 || got != max(want, 0) {
			t.Errorf("slot %d is of source %d, %d, want %d", slot, got, came, want)
		}
	}
	if _, came := r.Tenant(1 << 15); came > 0 {
		t.Error("a slot that does not exist has a source")
	}
	counts.add(0, 10, 7)
	counts.add(1, 5, 5)
	if retired, err := r.Retire(0, 100, packet.Account{Captured: 7}); retired || err != nil {
		t.Errorf("retired: %v, %v: its program may still run", retired, err)
	}
	const gone = 50
	r.Leave(sources, gone)
	if retired, err := r.Retire(0, gone, packet.Account{Captured: 7}); retired || err != nil {
		t.Errorf("retired: %v, %v: not all its records were read", retired, err)
	}
	for _, i := range sources {
		if retired, err := r.Retire(i, gone+1, packet.Account{Captured: counts[i].Sent}); !retired || err != nil {
			t.Errorf("source %d: retired: %v, %v", i, retired, err)
		}
	}
	equal(t, []int{0, 1, 2}, r.Gone(false))
	equal(t, []int{0, 1, 2}, r.TakeDeparted())
	if again := r.TakeDeparted(); again != nil {
		t.Errorf("sources %d have gone again", again)
	}
	r.Free(first)
	come(0, &seat{names: []string{"c"}})
	counts.add(0, 100, 100)
	counts.add(4, 3, 0)
	all, err := r.Accounts()
	testnet.Must(t, err)
	var got []string
	for i, a := range all {
		got = append(got, fmt.Sprintf("%s %d %d", r.Source(i).Name, a.Seen, a.Sent))
	}
	equal(t, []string{"a 10 7", "a2 5 5", "a3 0 0", "b 3 0", "c 100 100"}, got, "seen and sent")
	if source, came := r.Tenant(0); came != 5 || source != 4 || r.UsedSlots() != 5 {
		t.Errorf("slot 0 is of source %d, %d slots were used", source, r.UsedSlots())
	}
}

// An interface to which no program could be attached becomes no source. If at least one was
// attached before another failed, it is a source that has gone.
func TestRosterFailures(t *testing.T) {
	t.Parallel()
	r := NewRoster(nil, 1, nil)
	counts := make(slotCounters)
	r.Programs = counts
	refused := errors.New("refused")
	if sources, err := r.Add([]Hook{&seat{names: []string{"a"}, failed: refused}}, []int{0}, Origin{Arrival: 1}); !errors.Is(err, refused) || sources != nil {
		t.Errorf("sources %v, %v", sources, err)
	}
	if _, came := r.Tenant(0); came > 0 || len(r.Sources()) > 0 {
		t.Errorf("sources %v", r.Sources())
	}
	sources, err := r.Add([]Hook{&seat{names: []string{"a"}}, &seat{names: []string{"b"}, failed: refused}}, []int{0, 1}, Origin{Arrival: 1})
	if !errors.Is(err, refused) || len(sources) != 2 {
		t.Fatalf("sources %v, %v", sources, err)
	}
	r.Leave(sources, 1)
	for _, i := range sources {
		if retired, err := r.Retire(i, 2, packet.Account{}); !retired || err != nil {
			t.Errorf("source %d: %v, %v", i, retired, err)
		}
	}
	// One that goes right after its program was attached has seen packets, and its records come.
	brief := &seat{names: []string{"brief"}, failed: refused, attaching: func() { counts.add(3, 2, 1) }}
	if sources, err = r.Add([]Hook{brief}, []int{3}, Origin{Arrival: 1}); !errors.Is(err, refused) || len(sources) != 1 {
		t.Fatalf("sources %v, %v", sources, err)
	}
	if source, came := r.Tenant(3); came == 0 || source != sources[0] {
		t.Errorf("its record is of source %d, %d", source, came)
	}
	r.Leave(sources, 1)
	if retired, err := r.Retire(sources[0], 2, packet.Account{Captured: 1}); !retired || err != nil {
		t.Errorf("%v, %v", retired, err)
	}
}

// Records that the reader does not find keep no slot: a source that has gone is retired, and they
// are lost. Those that arrived damaged are invalid in the end, whichever source they name.
func TestRosterUnread(t *testing.T) {
	t.Parallel()
	r := NewRoster(nil, 1, nil)
	counts := make(slotCounters)
	r.Programs = counts
	l := NewLedger(2, 0)
	var sources []int
	for i := range 2 {
		own, err := r.Add([]Hook{&seat{names: []string{"a"}}}, []int{i}, Origin{Arrival: 1})
		testnet.Must(t, err)
		sources = append(sources, own...)
		counts.add(i, uint64(7+3*i), uint64(7+3*i))
		for range 7 {
			l.Take(i, 64)
		}
	}
	l.Reject(0) // it is of source 1, and names the other
	l.Publish()
	read := func() ([]ProgramCounts, error) { return r.Accounts() }
	r.Leave(sources, 1)
	for _, i := range sources {
		if retired, err := r.Retire(i, 2, l.Published(i)); !retired || err != nil {
			t.Errorf("source %d: %v, %v", i, retired, err)
		}
	}
	present, err := l.Accounts(read)
	testnet.Must(t, err)
	equal(t, packet.Accounts{
		{Seen: 8, Invalid: 1, Captured: 7, Bytes: 448},
		{Seen: 10, Lost: 3, Captured: 7, Bytes: 448},
	}, present, "when they have gone")
	programs, err := read()
	testnet.Must(t, err)
	l.Close(programs)
	equal(t, packet.Accounts{
		{Seen: 7, Captured: 7, Bytes: 448},
		{Seen: 10, Lost: 2, Invalid: 1, Captured: 7, Bytes: 448},
	}, l.Final(), "at the end")
}

// Where interfaces come and go all day, and some of their records are never found, there is still
// room for the next ones.
func TestRosterDay(t *testing.T) {
	t.Parallel()
	const day, atOnce = 60_000, 10
	r := NewRoster(nil, 1, nil)
	counts := make(slotCounters)
	r.Programs = counts
	var sources, numbers []int
	for i := range int64(day) {
		hooks := []Hook{&seat{names: []string{"a"}}}
		taken, err := r.Reserve(hooks)
		testnet.Must(t, err)
		own, err := r.Add(hooks, taken, Origin{Arrival: 1})
		testnet.Must(t, err)
		sources, numbers = append(sources, own...), append(numbers, taken...)
		counts.add(taken[0], 1, 1)
		if len(sources) < atOnce {
			continue
		}
		r.Leave(sources[:1], i+1)
		found := packet.Account{Captured: uint64(min(i%10, 1))} // of one in ten nothing is found
		if retired, err := r.Retire(sources[0], i+2, found); !retired || err != nil {
			t.Fatalf("source %d of %d stays: %v", sources[0], i+1, err)
		}
		r.Free(numbers[:1])
		sources, numbers = sources[1:], numbers[1:]
	}
	if n := r.UsedSlots(); n != atOnce {
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
		{"the last number", 0, maxHooks - 1, 1, 1, true},
		{"one number is left for two hooks", 0, maxHooks - 1, 2, 1, false},
		{"no number is left", 0, maxHooks, 1, 1, false},
		{"the last sources", 65_531, 0, 4, 1, true},
		{"a source too many", 65_531, 0, 5, 1, false},
		{"the last sources, at entry and exit", 65_531, 0, 2, 2, true},
		{"a hook too many, at entry and exit", 65_531, 0, 3, 2, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := NewRoster(nil, 2, nil)
			r.all = make([]member, test.have)
			for i := range test.taken {
				r.taken[i] = true
			}
			var hooks []Hook
			for range test.hooks {
				hooks = append(hooks, &seat{names: make([]string, test.sources)})
			}
			numbers, err := r.Reserve(hooks)
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
	r := NewRoster(nil, 1, nil)
	counts := make(slotCounters)
	r.Programs = counts
	begun, goOn, found := make(chan struct{}), make(chan struct{}), make(chan int)
	hooks := []Hook{&seat{names: []string{"a"}, attaching: func() { close(begun); <-goOn }}}
	numbers, err := r.Reserve(hooks)
	testnet.Must(t, err)
	added := make(chan error)
	go func() {
		_, err := r.Add(hooks, numbers, Origin{Arrival: 1})
		added <- err
	}()
	<-begun
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		r.Accounts()
		r.Sources()
		r.Gone(false)
		r.Cards()
	}()
	select {
	case <-asked:
	case <-time.After(10 * time.Second):
		t.Error("the reader waits until it is attached")
	}
	go func() {
		source, came := r.Tenant(numbers[0])
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
