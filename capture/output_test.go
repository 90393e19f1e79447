package capture

import (
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/capture/internal/probe"
	"github.com/xdpcap/xdpcap/capture/internal/ring"
	"github.com/xdpcap/xdpcap/capture/packet"
)

func describeTwo() Description {
	return Description{
		Sources: []Source{{Name: "a"}, {Name: "b"}},
		Options: Options{SnapLen: MaxSnapLen, Sample: 1, Buffer: DefaultBuffer},
	}
}

func TestComment(t *testing.T) {
	t.Parallel()
	d := describeTwo()
	d.Options.Sample = 100
	d.Options.Sink = true
	d.Options.Transport = TransportPerf
	for i := range d.Sources {
		d.Sources[i].Mode = Native
		d.Sources[i].Sampler = Program{ID: 7, Name: "xdpcap_xdp"}
	}
	want := `a: XDP program xdpcap_xdp (id 7), native mode
b: XDP program xdpcap_xdp (id 7), native mode
sampling: one packet of every 100, at random
every packet was dropped after sampling
snapshot length: 131070
transport: perf, 8 MiB for each CPU
command line: xdpcap -i a -i b`
	same(t, want, d.comment("xdpcap -i a -i b"))
	d.Options.HeadersOnly, d.Options.Payload = true, 64
	want = strings.Replace(want, "131070\n", "131070\npackets were cut in the kernel, 64 bytes after the end of their headers\n", 1)
	same(t, want, d.comment("xdpcap -i a -i b"))
}

// The statistics of a file say in a comment where an account does not add up.
func TestUnexplainedComment(t *testing.T) {
	t.Parallel()
	odd := Account{Seen: 5, FilteredOut: 1, Lost: 1, Captured: 1, Unexplained: 2}
	want := []string{"5 seen = 1 filtered out + 0 not sampled + 1 lost + 0 invalid + 1 captured + 2 unexplained", ""}
	same(t, want, []string{unexplained(odd), unexplained(Account{Seen: 3, NotSampled: 3})})
}

// A loop is a reader of a ring in memory, out of which the same packets come again and again.
type loop struct {
	probe.Reader
	memory  *ring.Memory
	packets []Packet
}

func newLoop(size int) *loop { return newLoopOf(packetOf(size, 1)) }

func newLoopOf(packet []byte) *loop {
	memory := ring.NewMemory(1<<20, 0, 1)
	for i := uint64(0); memory.Put(0, ring.NewRecord(packet, i), packet); i++ {
	}
	return &loop{
		Reader:  probe.Reader{Rings: memory.Set, Lost: ring.Losses{Slots: 1}, Ledger: probe.NewLedger(1, 0)},
		memory:  memory,
		packets: make([]Packet, ring.GroupSize),
	}
}

// next returns some packets.
func (l *loop) next(tb testing.TB) []Packet {
	if !l.Rings.IsReady() {
		l.memory.Rewind()
	}
	n, err := l.Read(l.packets)
	must(tb, err)
	return l.packets[:n]
}

// To read a packet and to encode it allocates nothing.
//
// It is not parallel, because testing.AllocsPerRun counts those of the whole process.
func TestNoAllocations(t *testing.T) {
	l, d := newLoop(60), describeTwo()
	e := NewEncoder(&d, EncoderOptions{})
	blocks := make([]byte, 0, 1<<16)
	n := testing.AllocsPerRun(200, func() {
		blocks = blocks[:0]
		packets := l.next(t)
		for i := range packets {
			blocks = e.Append(blocks, &packets[i])
		}
	})
	if n != 0 || len(blocks) == 0 {
		t.Errorf("%v allocations per %d packets, which have %d bytes", n, ring.GroupSize, len(blocks))
	}
}

// A wrapped input still watches how its outputs keep up.
func TestWrappedInputIsRegulated(t *testing.T) {
	t.Parallel()
	in := &watchedInput{ended: io.EOF}
	if _, err := Run(t.Context(), wrappedInput{wrappedInput{in}}); err != nil || in.watched != 1 || in.unwatched != 1 {
		t.Errorf("watched %d times, and no longer %d times: %v", in.watched, in.unwatched, err)
	}
}

type wrappedInput struct{ Input }

func (w wrappedInput) Unwrap() Input { return w.Input }

// A watchedInput counts how often its outputs are watched. It has no packets.
type watchedInput struct {
	ended              error
	watched, unwatched int
}

func (w *watchedInput) regulate([]Output) func() {
	w.watched++
	return func() { w.unwatched++ }
}

func (w *watchedInput) Description() Description           { return Description{} }
func (w *watchedInput) Read([]Packet, func()) (int, error) { return 0, w.ended }
func (w *watchedInput) Accounts() (Accounts, error)        { return nil, nil }
func (w *watchedInput) Stop()                              {}
func (w *watchedInput) Close() error                       { return nil }

// A file says which interfaces are captured as they come, and an anonymized one does not: their
// names may have an address.
func TestPatternsInComment(t *testing.T) {
	t.Parallel()
	d := Description{Options: Options{Patterns: []string{"veth*"}, Except: []string{"enx0a1b2c3d4e5f"}}}
	if got := d.comment(""); !strings.Contains(got, "interfaces as they come and go: veth* except enx0a1b2c3d4e5f") {
		t.Error(got)
	}
	d.Anonymized = "addresses are mapped"
	if got := d.comment(""); strings.Contains(got, "0a1b2c3d4e5f") {
		t.Error(got)
	}
}

// A file says by which verdicts packets were chosen, of XDP and of tc: a name that both have is
// said only for the programs that are traced.
func TestVerdictsInComment(t *testing.T) {
	t.Parallel()
	xdp, tc := Source{}, Source{TargetAt: packet.AtTCIngress}
	for _, test := range []struct {
		sources []Source
		want    string
	}{
		{nil, "[drop]"},
		{[]Source{xdp}, "[drop]"},
		{[]Source{tc}, "[shot]"},
		{[]Source{xdp, tc}, "[drop] [shot]"},
	} {
		d := Description{Sources: test.sources, Options: Options{Verdicts: []Verdict{Drop}, TCVerdicts: []Verdict{2}}}
		var got []string
		for _, found := range regexp.MustCompile(`only packets with the verdict (.*) at the exit`).FindAllStringSubmatch(d.comment(""), -1) {
			got = append(got, found[1])
		}
		if text := strings.Join(got, " "); text != test.want {
			t.Errorf("%d sources: %s, want %s", len(test.sources), text, test.want)
		}
	}
}
