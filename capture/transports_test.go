package capture_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// How many frames TestTransports sends through each transport, and the seed of a run that failed,
// which its log names.
const (
	transportFrames = "XDPCAP_FRAMES"
	transportSeed   = "XDPCAP_SEED"
)

func environment(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// Two CPUs receive numbered frames of random sizes, each on an interface of its own, as fast as
// they can be sent, while the output stalls now and then, so that small rings overflow. What is
// captured is in order and as it was sent, and what is missing is counted: in the account, and in
// the packets behind each gap.
func TestTransports(t *testing.T) {
	t.Parallel()
	frames := environment(t, transportFrames, 300_000)
	if testnet.Emulated() || testing.Short() {
		frames = 50_000
	}
	seed := environment(t, transportSeed, uint64(time.Now().UnixNano()))
	t.Logf("%s=%d repeats the sizes and stalls", transportSeed, seed)
	for i, transport := range capture.Transports() {
		for j, test := range []struct {
			name    string
			traced  bool
			stamp   capture.Stamp
			snapLen int
			buffer  int
			part    uint64 // how many of the frames are sent so
		}{
			{"whole packets", false, capture.HostStamp, 0, 512 << 10, frames * 7 / 10},
			{"heads", false, capture.HostStamp, 75, capture.MinBuffer, frames * 3 / 10},
			{"traced", true, capture.HostStamp, 0, 512 << 10, frames / 10}, // besides the others, since some machines cannot
			{"traced, host_lowprec", true, capture.HostLowprecStamp, 0, 512 << 10, frames / 10},
		} {
			if !testnet.Shared(i+j) || test.stamp == capture.HostLowprecStamp && transport == capture.TransportPerf {
				continue // with perf's, many packets have the same stamp, as if they were late
			}
			t.Run(fmt.Sprintf("%v, %s", transport, test.name), func(t *testing.T) {
				o := capture.Options{Transport: transport, Buffer: test.buffer, SnapLen: test.snapLen, Stamp: test.stamp, Sink: !test.traced}
				flood := newFlood(t, seed)
				if test.traced {
					testnet.RequireFentry(t)
					o.Hooks = []capture.Hook{capture.Entry, capture.Exit}
					for _, pair := range flood.pairs {
						target, err := testnet.AttachTarget(pair.Rx, pair.RxName, testnet.HookedFrags) // passes every frame
						must(t, err)
						defer target.Close()
					}
				}
				flood.run(o, test.part)
			})
		}
	}
}

// A flood is frames that are sent to two interfaces by a CPU each, and what is captured of them.
type flood struct {
	t     *testing.T
	seed  uint64
	pairs []*testnet.Pair
	sent  []atomic.Uint64 // frames, by interface

	session *capture.Session
	out     *frameChecker
	ended   chan flooded
}

// flooded is what a session that captured a flood came to.
type flooded struct {
	accounts []capture.Accounts
	err      error
}

const floodCPUs = 2

func newFlood(t *testing.T, seed uint64) *flood {
	t.Helper()
	first := testnet.MustPair(t, testnet.PairOptions{MTU: 9000})
	second := testnet.MustPair(t, testnet.PairOptions{MTU: 9000, Tx: first.Tx, TxName: "tx1", Rx: first.Rx, RxName: "rx1"})
	return &flood{
		t:     t,
		seed:  seed,
		pairs: []*testnet.Pair{first, second},
		sent:  make([]atomic.Uint64, floodCPUs),
	}
}

// run captures so many frames and checks them.
func (f *flood) run(o capture.Options, frames uint64) {
	f.t.Helper()
	for _, pair := range f.pairs {
		o.Interfaces = append(o.Interfaces, pair.RxName)
	}
	f.session = capture.OpenAt(f.t, f.pairs[0].Rx, o)
	f.out = newFrameChecker(f, len(f.session.Sources()))
	ctx, cancel := context.WithCancel(f.t.Context())
	defer cancel()
	f.ended = make(chan flooded, 1)
	go func() {
		accounts, err := f.session.Run(ctx, f.out)
		f.ended <- flooded{accounts, err}
	}()

	begun := time.Now()
	f.send(frames / floodCPUs)
	f.settle()
	took := time.Since(begun)
	// The last losses are told by the packet behind them: one more on each CPU and interface, now
	// that there is room.
	for cpu := range floodCPUs {
		for i := range f.pairs {
			must(f.t, machine.Quiet(cpu, func() error { return f.sendOn(i, 1) }))
			f.settle()
		}
	}
	cancel()
	r := <-f.ended
	must(f.t, r.err)
	f.t.Logf("%d frames in %v, %d too late: %+v", frames, took.Round(time.Millisecond), f.out.late, r.accounts[0].Total())
	f.check(r.accounts[0])
}

// send sends so many frames to each interface, all at once.
func (f *flood) send(frames uint64) {
	f.t.Helper()
	errs := make(chan error)
	for i := range f.pairs {
		go func() { errs <- machine.Quiet(i, func() error { return f.sendOn(i, frames) }) }()
	}
	for range f.pairs {
		if err := <-errs; err != nil {
			f.t.Error(err)
		}
	}
}

// sendOn sends the next frames to an interface.
func (f *flood) sendOn(i int, frames uint64) error {
	pair := f.pairs[i]
	sender, err := testnet.NewSender(pair.Tx, pair.TxName)
	if err != nil {
		return err
	}
	defer sender.Close()
	frame := make([]byte, maxFlood)
	for range frames {
		if err := sender.Send(f.frame(frame, i, f.sent[i].Load())); err != nil {
			return err
		}
		f.sent[i].Add(1)
	}
	return nil
}

const minFlood, maxFlood = 14, 9014

// noise is what the frames have behind their headers: each from another place on.
var noise = func() []byte {
	b := make([]byte, 1<<16+maxFlood)
	random := rand.NewChaCha8([32]byte{})
	random.Read(b)
	return b
}()

// frame makes a frame in b. Its destination address is its number; its source address, size and
// payload follow from the number, the interface and the seed.
func (f *flood) frame(b []byte, pair int, number uint64) []byte {
	h := (number<<8 | uint64(pair)) ^ f.seed
	h *= 0x9e3779b97f4a7c15
	h ^= h >> 32
	size := minFlood + h%(maxFlood-minFlood+1)
	var head [16]byte
	binary.BigEndian.PutUint64(head[:], number<<16)
	binary.BigEndian.PutUint64(head[6:], h<<16)
	binary.BigEndian.PutUint16(head[12:], markerType)
	copy(b, head[:minFlood])
	copy(b[minFlood:size], noise[h>>48:])
	return b[:size]
}

// markerType is an EtherType for local experiments (IEEE 802).
const markerType = 0x88b5

func numberOf(packet []byte) uint64 { return binary.BigEndian.Uint64(packet) >> 16 }

// settle waits until all frames have arrived, and the output has all that found room.
func (f *flood) settle() {
	f.t.Helper()
	for i, pair := range f.pairs {
		testnet.WaitArrived(f.t, pair, testnet.PairStats{}, f.sent[i].Load())
	}
	testnet.WaitFor(f.t, "the output to have all packets", func() bool {
		select {
		case r := <-f.ended:
			f.t.Fatalf("the session has ended: %v", r.err)
		default:
		}
		a := total(f.t, f.session)
		return a.Seen == f.seen() && a.Seen == a.Lost+f.out.packets.Load()
	})
}

// waitLost holds the output up until a ring is full, so that some frames are lost on every machine.
func (f *flood) waitLost() error {
	for begun := time.Now(); time.Since(begun) < testnet.Patience; time.Sleep(time.Millisecond) {
		accounts, err := f.session.Accounts()
		if err != nil || accounts.Total().Lost > 0 {
			return err
		}
	}
	return errors.New("no frame was lost")
}

// seen is how many packets the programs must have seen, by the drivers' counters.
func (f *flood) seen() (seen uint64) {
	f.t.Helper()
	hooks := uint64(len(f.session.Sources()) / len(f.pairs))
	for _, pair := range f.pairs {
		seen += hooks * testnet.MustStats(f.t, pair).Delivered
	}
	return seen
}

// check compares the final accounts with what the output got.
func (f *flood) check(accounts capture.Accounts) {
	f.t.Helper()
	hooks := len(accounts) / len(f.pairs)
	for i, a := range accounts {
		got := f.out.sources[i]
		want := capture.Account{
			Seen:     testnet.MustStats(f.t, f.pairs[i/hooks]).Delivered,
			Lost:     got.dropped,
			Captured: got.packets,
			Bytes:    got.bytes,
		}
		if a != want || a.Seen != a.Lost+a.Captured {
			f.t.Errorf("the account of source %d is %+v, want %+v", i, a, want)
		}
	}
	if a := accounts.Total(); a.Lost == 0 || a.Captured < a.Seen/100 {
		f.t.Errorf("too little was lost or captured: %+v", a)
	}
	// The session gives a packet that comes too late for its place the time of the one before, so
	// that the times never decrease. On an emulated machine a program is often held up for so long.
	if late := f.out.late; late > f.out.packets.Load()/100 && !testnet.Emulated() {
		f.t.Errorf("%d packets were too late for their place", late)
	}
	if n := len(f.out.last); n < floodCPUs*len(accounts) {
		f.t.Errorf("packets of %d CPUs and sources", n)
	}
}

// A frameChecker is an output that checks every packet of a flood, and stalls at random.
type frameChecker struct {
	flood   *flood
	snapLen int
	random  *rand.Rand
	packets atomic.Uint64 // so far
	sources []captured
	last    map[place]arrived
	time    int64  // of the last packet
	late    uint64 // packets that were given the time of the one before
	want    []byte
}

// captured is what an output got from a source.
type captured struct{ packets, bytes, dropped uint64 }

// A place is a CPU of a source. Its packets are in the order of their numbers.
type place struct {
	cpu    uint64
	source int
}

// arrived is the last packet of a place.
type arrived struct{ number, id uint64 }

func newFrameChecker(f *flood, sources int) *frameChecker {
	return &frameChecker{
		flood:   f,
		snapLen: f.session.Options().SnapLen,
		random:  rand.New(rand.NewPCG(f.seed, 0)),
		sources: make([]captured, sources),
		last:    make(map[place]arrived),
		want:    make([]byte, maxFlood),
	}
}

func (c *frameChecker) Begin(capture.Description) error { return nil }
func (c *frameChecker) Flush() error                    { return nil }

func (c *frameChecker) End(final capture.Accounts) (capture.Accounts, error) { return final, nil }

func (c *frameChecker) Write(packets []capture.Packet) error {
	for i := range packets {
		if err := c.take(&packets[i]); err != nil {
			return err
		}
	}
	return nil
}

func (c *frameChecker) take(p *capture.Packet) error {
	if err := c.check(p); err != nil {
		return fmt.Errorf("packet %d, %x: %w", c.packets.Load(), p.ID, err)
	}
	got := &c.sources[p.Source]
	got.packets++
	got.bytes += uint64(len(p.Data))
	got.dropped += p.Dropped
	if c.packets.Add(1) == 1 {
		return c.flood.waitLost()
	}
	if c.random.IntN(3000) == 0 {
		time.Sleep(time.Duration(c.random.Int64N(int64(20 * time.Millisecond))))
	}
	return nil
}

func (c *frameChecker) check(p *capture.Packet) error {
	if len(p.Data) < minFlood {
		return fmt.Errorf("%d bytes", len(p.Data))
	}
	number := numberOf(p.Data)
	pair := int(p.Source) * len(c.flood.pairs) / len(c.sources)
	want := c.flood.frame(c.want, pair, number)
	if int(p.WireLen) != len(want) || !bytes.Equal(p.Data, want[:min(len(want), c.snapLen)]) {
		return fmt.Errorf("frame %d of interface %d has %d bytes, %d of them captured, want %d, or other bytes",
			number, pair, p.WireLen, len(p.Data), len(want))
	}
	at := place{p.ID >> 52, int(p.Source)}
	last, ok := c.last[at]
	now := arrived{number, p.ID & (1<<40 - 1)}
	c.last[at] = now
	switch {
	case p.Time < c.time:
		return fmt.Errorf("the time is %d ns before that of the packet before", c.time-p.Time)
	case ok && number <= last.number:
		return fmt.Errorf("frame %d after frame %d", number, last.number)
	case now.id != last.id+1+p.Dropped:
		return fmt.Errorf("the packet before has the id %x, and %d were dropped between", last.id, p.Dropped)
	}
	if p.Time == c.time {
		c.late++
	}
	c.time = p.Time
	return nil
}
