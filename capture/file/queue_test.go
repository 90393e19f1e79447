package file

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A stalling output blocks in Write until goOn is called.
type stalling struct {
	bytes.Buffer
	stalled chan struct{} // closed by goOn
	err     error         // of every write
}

func newStalling() *stalling { return &stalling{stalled: make(chan struct{})} }

func (s *stalling) goOn() { close(s.stalled) }

func (s *stalling) Write(b []byte) (int, error) {
	<-s.stalled
	if s.err != nil {
		return 0, s.err
	}
	return s.Buffer.Write(b)
}

// largePacket is a packet of about 1500 bytes.
func largePacket(i int) *capture.Packet {
	data := packetOf(1460+i%40, byte(i))
	return &capture.Packet{Source: uint16(i % 2), Facts: &capture.Facts{WireLen: uint32(len(data)), Time: int64(i)}, Data: data}
}

func (q *queue) chunks() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.used) + len(q.free)
}

// While an output stalls, packets wait in memory, which is given back afterwards. The file has all
// of them, in their order.
func TestQueueStall(t *testing.T) {
	t.Parallel()
	const packets = 20_000
	for _, o := range []Options{{}, {Format: PCAP}, {Immediate: true}} {
		out := newStalling()
		w := testWriter(out, o)
		var read [2]capture.Account
		add := func() {
			p := largePacket(int(read[0].Captured + read[1].Captured))
			must(t, w.Write([]capture.Packet{*p}))
			read[p.Source].Captured++
			read[p.Source].Seen++
			read[p.Source].Bytes += uint64(len(p.Data))
		}
		for range packets { // with a queue that is too small, this waits for ever
			add()
		}
		if chunks := packets * 1500 / chunkSize; w.queue.chunks() < chunks || w.Size() > 0 {
			t.Errorf("%+v: %d chunks, want %d; the file has %d bytes", o, w.queue.chunks(), chunks, w.Size())
		}
		out.goOn()
		testnet.WaitFor(t, "the memory to be given back", func() bool {
			add()
			return w.Flush() == nil && (o.Immediate || w.queue.chunks() <= minChunks)
		})
		own, err := w.End(read[:])
		if err != nil || own.Total() != capture.Accounts(read[:]).Total() {
			t.Errorf("%+v: the account is %+v of %+v, %v", o, own.Total(), capture.Accounts(read[:]).Total(), err)
		}
		if n := countPackets(o.Format, out.Bytes()); n != own.Total().Captured || int64(out.Len()) != w.Size() {
			t.Errorf("%+v: %d packets and %d bytes in the file, Size %d, account %+v", o, n, out.Len(), w.Size(), own.Total())
		}
		checkOrder(t, o.Format, out.Bytes())
	}
}

// With enough memory, a queue holds the packets of one second while the output stalls, at the rates
// that the capture is made for.
func TestQueueSecond(t *testing.T) {
	t.Parallel()
	for size, rate := range map[int]int{64: 1_500_000, 1500: 300_000} {
		c, err := newChunk()
		must(t, err)
		c.reset(0)
		d := describeTwo()
		p := capture.Packet{Facts: &capture.Facts{WireLen: uint32(size), Time: 1, ID: 1}, Data: packetOf(size, 0)}
		packets, _ := asPCAPNG.open(&d, &Options{}).packets(c, slices.Repeat([]capture.Packet{p}, chunkPackets))
		if most := packets * queueLimit(maxQueue, 0, math.MaxUint64); most < rate {
			t.Errorf("%d packets of %d bytes fit into a queue, and %d come in a second", most, size, rate)
		}
		unix.Munmap(c.mem)
	}
}

// Packets of capture files wait in the file instead of in memory, unless the file grows meanwhile.
func TestQueueOfFiles(t *testing.T) {
	t.Parallel()
	for waits, want := range map[bool]int{false: fileQueue, true: maxQueue} {
		var file bytes.Buffer
		first := testWriter(&file, Options{})
		if _, err := first.End(make(capture.Accounts, 2)); err != nil {
			t.Fatal(err)
		}
		in, err := NewInput([]InputFile{{Name: "file", In: &file, Waits: waits}}, InputOptions{})
		must(t, err)
		w := NewWriter(io.Discard, Options{})
		must(t, w.Begin(in.Description()))
		if w.queue.bound != want {
			t.Errorf("a file that waits for more: %v: up to %d bytes wait to be written, want %d", waits, w.queue.bound, want)
		}
		w.End(nil)
		in.Close()
	}
}

// checkOrder checks that the packets of a file have the times 0, 1, 2 and so on, in nanoseconds.
func checkOrder(t *testing.T, format Format, file []byte) {
	t.Helper()
	n := int64(0)
	err := forPackets(format, file, func(ns int64) {
		if ns != n {
			t.Fatalf("packet %d has the time %d", n, ns)
		}
		n++
	})
	if err != nil {
		t.Error(err)
	}
}

// A full queue makes Write wait and loses no packets. An error of the output ends the wait.
func TestQueueFull(t *testing.T) {
	t.Parallel()
	for _, broken := range []error{nil, errNoRoom} {
		out := newStalling()
		out.err = broken
		w := testWriter(out, Options{})
		w.queue.available = func() uint64 { return 0 } // so that it has the minimum number of chunks
		w.queue.limit = minChunks
		w.queue.available = func() uint64 { return 0 } // otherwise the queue may grow after limitInterval
		const packets = 3 * minChunks * chunkSize / 1500
		written := make(chan error, 1)
		go func() {
			var err error
			for i := 0; i < packets && err == nil; i++ {
				err = w.Write([]capture.Packet{*largePacket(i)})
			}
			written <- err
		}()
		testnet.WaitFor(t, "the queue to be full", func() bool { return w.queue.chunks() == minChunks })
		select {
		case err := <-written:
			t.Fatalf("all packets are in a full queue, or %v", err)
		default:
		}
		out.goOn()
		if err := <-written; !errors.Is(err, broken) {
			t.Errorf("Write returned %v, want %v", err, broken)
		}
		own, err := w.End(capture.Accounts{{Seen: packets, Captured: packets}, {}})
		if !errors.Is(err, broken) {
			t.Errorf("End returned %v, want %v", err, broken)
		}
		if n := countPackets(PCAPNG, out.Bytes()); broken == nil && n != packets || n != own[0].Captured+own[1].Captured {
			t.Errorf("%d packets in the file, account %+v", n, own)
		}
	}
}

// A queue that gets no memory goes on with its chunk, also if all blocks were written during the
// allocation.
func TestQueueWithoutMemory(t *testing.T) {
	t.Parallel()
	out := newStalling()
	w := testWriter(out, Options{})
	q := w.queue
	asked := 0
	q.allocate = func() (*chunk, error) {
		asked++
		out.goOn()
		testnet.WaitFor(t, "everything to be written", func() bool {
			added, written, _ := q.backlog()
			return added == written
		})
		return nil, errNoRoom
	}
	must(t, w.Write([]capture.Packet{*testPacket(0)}))
	must(t, q.next())
	must(t, w.Write([]capture.Packet{*testPacket(1)}))
	if own, err := w.End(capture.Accounts{{Captured: 1}, {Captured: 1}}); err != nil || own.Total().Captured != 2 || asked != 1 {
		t.Errorf("asked for memory %d times, account %+v, %v", asked, own, err)
	}
}

// A block that is larger than a chunk is written like any other.
func TestQueueLargeBlock(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w := testWriter(&out, Options{})
	for i, size := range []int{60, 2 * chunkSize, 60} {
		data := packetOf(size, byte(i))
		must(t, w.Write([]capture.Packet{{Facts: &capture.Facts{WireLen: uint32(size), Time: int64(i)}, Data: data}}))
	}
	own, err := w.End(capture.Accounts{{Seen: 3, Captured: 3}, {}})
	if err != nil || own[0].Captured != 3 || countPackets(PCAPNG, out.Bytes()) != 3 {
		t.Errorf("%d packets in the file, account %+v, %v", countPackets(PCAPNG, out.Bytes()), own, err)
	}
}

// A File that is closed before its end does not wait for a reader that has stopped reading.
func TestFileCloseStalled(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "fifo")
	must(t, unix.Mkfifo(path, 0o600))
	r, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	must(t, err)
	defer r.Close()
	o, err := Open(path, Options{})
	must(t, err)
	must(t, o.Begin(describeTwo()))
	for i := range 5000 { // more than fit into the pipe
		must(t, o.Write([]capture.Packet{*largePacket(i)}))
	}
	must(t, o.Flush())
	testnet.WaitFor(t, "the pipe to be full", func() bool {
		n, err := unix.IoctlGetInt(int(r.Fd()), unix.TIOCINQ)
		return err != nil || n > 0
	})
	closed := make(chan error, 1)
	go func() { closed <- o.Close() }()
	select {
	case <-closed:
	case <-time.After(20 * time.Second):
		t.Fatal("Close waits for the reader")
	}
	if err := o.Write([]capture.Packet{*largePacket(0)}); err == nil {
		t.Error("a closed File takes packets")
	}
}

// A queue may have a quarter of its own and the available memory together.
func TestQueueLimit(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		has, available uint64
		want           int
	}{
		{0, math.MaxUint64, maxQueue / chunkSize},
		{chunkSize, math.MaxUint64, maxQueue / chunkSize},
		{0, 4 << 30, maxQueue / chunkSize},
		{0, 400 << 20, 100 << 20 / chunkSize},
		{100 << 20, 300 << 20, 100 << 20 / chunkSize},
		{100 << 20, 0, 25 << 20 / chunkSize},
		{0, 1 << 20, minChunks},
	} {
		if got := queueLimit(maxQueue, test.has, test.available); got != test.want {
			t.Errorf("with %d bytes, and %d available: %d chunks, want %d", test.has, test.available, got, test.want)
		}
	}
}

// Queues that grow at the same time share the available memory and leave some of it, because each
// reads the available memory again while it grows.
func TestQueuesShareMemory(t *testing.T) {
	t.Parallel()
	const all = 64 << 20
	var queues []*queue
	has := func() (sum uint64) {
		for _, q := range queues {
			sum += uint64(q.chunks()) * chunkSize
		}
		return sum
	}
	stalled := make(chan struct{})
	for range 6 {
		q, err := newQueue(stalledWriter{stalled}, maxQueue, func() uint64 { return all - has() })
		must(t, err)
		defer q.end()
		// It waits to be written, so that no chunk becomes free.
		q.openChunk.blocks = append(q.openChunk.blocks, 0)
		q.flush()
		queues = append(queues, q)
	}
	defer close(stalled)
	for grown := true; grown; {
		grown = false
		for _, q := range queues {
			q.limitAt = time.Time{} // long ago
			if c := q.grow(); c != nil {
				q.mu.Lock()
				q.used = append(q.used, c)
				q.mu.Unlock()
				grown = true
			}
		}
	}
	// Each may have a quarter of its own and the remaining memory, so 6 queues have 2/3.
	if sum := has(); sum < all*5/8 || sum > all*3/4 {
		t.Errorf("%d queues have %d bytes of %d", len(queues), sum, all)
	}
	for i, q := range queues {
		if len(q.used) < minChunks {
			t.Errorf("queue %d has %d chunks", i, len(q.used))
		}
	}
}

// A stalledWriter blocks until its channel is closed.
type stalledWriter struct{ goOn chan struct{} }

func (w stalledWriter) write([]byte, []capture.BlockEnd) error { <-w.goOn; return nil }

func (w stalledWriter) tend(bool) error { return nil }
