package file

import (
	"math"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/capture"
)

const (
	// maxQueue is the upper bound for a queue's memory, in bytes. Disks often stall for about a
	// second. Packets of more than two seconds fit, at a rate of 1,500,000 packets of 64 bytes, or
	// 300,000 of 1500 bytes.
	maxQueue = 1 << 30
	// fileQueue is the same bound for packets from capture files, which stay in the file and are
	// never lost. It is enough to read and write at the same time.
	fileQueue = 16 << 20
	// chunkSize is how many bytes of memory are allocated and freed at a time, and about how many
	// are written at a time.
	chunkSize = 256 << 10
	// chunkPackets is the upper bound for the packets in a chunk: about as many as fit if each has
	// 64 bytes.
	chunkPackets = 2048
	// minChunks is how many chunks a queue may have even if there is little memory. It does not
	// free them.
	minChunks = 8
	// tendInterval is how often a queue checks the file and frees unneeded memory.
	tendInterval = 500 * time.Millisecond
)

// A queue passes blocks from the goroutine that encodes them to its own goroutine, which writes
// them to a blockWriter. A file that stalls therefore delays the encoder only when the queue is
// full. The queue's memory grows while blocks wait, and is freed when it is no longer needed. The
// methods belong to the goroutine that encodes, except wake and backlog. Until end returns, run,
// the methods that it calls and the blockWriter belong to the queue's own goroutine.
type queue struct {
	out       blockWriter
	bound     int           // upper bound for limit, in bytes; less if there is little memory
	available func() uint64 // bytes of available memory, without the queue's own
	allocate  func() (*chunk, error)

	openChunk *chunk        // the chunk to which the encoder adds blocks; nil after end
	limitAt   time.Time     // when limit was last computed
	wokenAt   time.Time     // when tendIfDue last called wake
	failed    atomic.Bool   // whether failure returns an error
	ended     chan struct{} // closed when run has returned

	mu     sync.Mutex
	work   sync.Cond // run may have something to do
	room   sync.Cond // a chunk may be free, or err is set
	used   []*chunk  // in the order in which they are written; the last one is openChunk
	limit  int       // how many chunks there may be: see updateLimit
	free   []*chunk  // the last one is used next, because the CPU's cache may still have it
	unused int       // how many chunks in free were not used since the last call of tend
	due    bool      // run must call tend
	ending bool      // no more blocks will be added
	err    error     // the blockWriter's first error
}

// A blockWriter is the destination of a queue: a stream, or a File, which has a series of streams.
// After an error it writes no more blocks.
type blockWriter interface {
	// write writes blocks. ends has the end of each of them.
	write(blocks []byte, ends []capture.BlockEnd) error
	// tend checks the file. It is called about twice a second, and after wake. idle means that no
	// blocks wait.
	tend(idle bool) error
}

// newQueue starts a queue of at most bound bytes. The caller must call end. The goroutine that
// encodes calls available while the queue grows.
func newQueue(out blockWriter, bound int, available func() uint64) (*queue, error) {
	q := &queue{out: out, bound: bound, available: available, allocate: newChunk, ended: make(chan struct{})}
	q.updateLimit()
	q.work.L, q.room.L = &q.mu, &q.mu
	first, err := newChunk()
	if err != nil {
		return nil, err
	}
	first.reset(0)
	q.openChunk, q.used = first, []*chunk{first}
	go q.run()
	return q, nil
}

// queueLimit returns how many chunks a queue may have: at most bound bytes and, like the rings, at
// most a quarter of its own and the available memory together.
func queueLimit(bound int, has, available uint64) int {
	available = min(available, math.MaxUint64-has)
	return max(int(min(uint64(bound), (has+available)/4)/chunkSize), minChunks)
}

// limitInterval is how long a growing queue uses the last reading of the available memory. It is
// short because other queues and processes grow at the same time.
const limitInterval = 10 * time.Millisecond

// updateLimit computes how many chunks the queue may have, at most once per limitInterval.
func (q *queue) updateLimit() {
	now := time.Now()
	if now.Sub(q.limitAt) < limitInterval {
		return
	}
	q.limitAt = now
	available := q.available()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.limit = queueLimit(q.bound, uint64(len(q.used)+len(q.free))*chunkSize, available)
}

// limitBytes returns how many bytes may wait, as last computed.
func (q *queue) limitBytes() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.limit * chunkSize
}

// next hands over the open chunk and opens an empty one. It waits while the queue is full. It
// returns the blockWriter's error or, after end, os.ErrClosed.
func (q *queue) next() error {
	if err := q.failure(); err != nil {
		return err
	}
	q.flush()
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.err == nil && !q.openNext() {
		q.room.Wait()
	}
	return q.err
}

// flush publishes all added blocks, so that they are written. It returns the blockWriter's error.
func (q *queue) flush() error {
	q.mu.Lock()
	published := q.publish()
	err := q.err
	q.mu.Unlock()
	if published {
		// If run is not already writing, let it run on this CPU, whose cache has the blocks. To
		// wake another CPU, which must fetch them from this cache, costs more.
		runtime.Gosched()
	}
	return err
}

// tendIfDue makes run tend if tendInterval has passed. Call it a few times in each tendInterval.
func (q *queue) tendIfDue() {
	now := time.Now()
	if now.Sub(q.wokenAt) < tendInterval {
		return
	}
	q.wokenAt = now
	q.wake()
}

// wake makes run tend. Any goroutine may call it.
func (q *queue) wake() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.due = true
	q.work.Signal()
}

// end waits until the blockWriter has written all blocks or failed, and returns its error. It may
// be called again.
func (q *queue) end() error {
	if q.openChunk != nil {
		q.mu.Lock()
		q.publish()
		q.ending = true
		q.work.Signal()
		q.mu.Unlock()
		<-q.ended
		for _, c := range slices.Concat(q.used, q.free) {
			unix.Munmap(c.mem)
		}
		q.used, q.free, q.openChunk = nil, nil, nil
		q.failed.Store(true)
	}
	return q.err
}

// backlog returns how many bytes of blocks were published so far, how many of them were written,
// and how many may wait. Any goroutine may call it before end.
func (q *queue) backlog() (added, written, limit int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	first, last := q.used[0], q.used[len(q.used)-1]
	return last.start + int64(len(last.published.blocks)), first.start + int64(len(first.written.blocks)), int64(q.limit) * chunkSize
}

// failure returns the blockWriter's error or, after end, os.ErrClosed.
func (q *queue) failure() error {
	if !q.failed.Load() {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err == nil {
		return os.ErrClosed
	}
	return q.err
}

// publish makes the blocks that were added to the open chunk visible to run. It returns false if
// there are no new ones. The caller holds mu.
func (q *queue) publish() bool {
	if q.openChunk == nil || len(q.openChunk.blocks) == len(q.openChunk.published.blocks) {
		return false
	}
	q.openChunk.published = q.openChunk.batch
	q.work.Signal()
	return true
}

// openNext opens an empty chunk. It returns false if no chunk is free and the queue cannot grow.
// All blocks in the previous chunk must have been published. The caller holds mu, which openNext
// may release meanwhile.
func (q *queue) openNext() bool {
	end := q.openChunk.end()
	if len(q.free) == 0 && !q.openChunk.isWritten() {
		q.mu.Unlock()
		c := q.grow()
		q.mu.Lock()
		if c != nil { // otherwise the queue goes on with its chunks
			q.free = append(q.free, c)
		}
	}
	if q.openChunk.isWritten() { // perhaps while mu was released, so run signals room no more
		q.openChunk.reset(end)
		return true
	}
	last := len(q.free) - 1
	if last < 0 {
		return false
	}
	q.openChunk = q.free[last]
	q.free = q.free[:last]
	q.unused = min(q.unused, last)
	q.used = append(q.used, q.openChunk)
	q.openChunk.reset(end)
	return true
}

// grow returns a new chunk, or nil if the queue may have no more or there is no memory. It is
// called when no chunk is free, without mu.
func (q *queue) grow() *chunk {
	q.updateLimit()
	q.mu.Lock()
	full := len(q.used) >= q.limit
	q.mu.Unlock()
	if full {
		return nil
	}
	c, err := q.allocate()
	if err != nil {
		return nil
	}
	return c
}

// run writes published blocks until the queue is ended.
func (q *queue) run() {
	defer close(q.ended)
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		first := q.used[0]
		switch {
		case q.due:
			q.due = false
			q.tend()
		case len(first.written.blocks) < len(first.published.blocks):
			q.write(first)
		case len(q.used) > 1:
			q.used = slices.Delete(q.used, 0, 1)
			q.free = append(q.free, first)
			q.room.Signal()
		case q.ending:
			return
		default:
			q.work.Wait()
		}
	}
}

// write writes the published blocks of a chunk. The caller holds mu, which write releases
// meanwhile.
func (q *queue) write(c *chunk) {
	before, now := c.written, c.published
	q.mu.Unlock()
	err := q.out.write(now.blocks[len(before.blocks):], now.ends[len(before.ends):])
	q.mu.Lock()
	c.written = now
	q.fail(err)
	q.room.Signal() // the whole open chunk may now be written
}

// tend frees unneeded memory and checks the file. The caller holds mu, which tend releases
// meanwhile.
func (q *queue) tend() {
	n := max(min(q.unused, len(q.used)+len(q.free)-minChunks), 0)
	unneeded := slices.Clone(q.free[:n])
	q.free = slices.Delete(q.free, 0, n)
	q.unused = len(q.free)
	first := q.used[0]
	idle := len(q.used) == 1 && len(first.written.blocks) == len(first.published.blocks)
	q.mu.Unlock()
	for _, c := range unneeded {
		unix.Munmap(c.mem)
	}
	err := q.out.tend(idle)
	q.mu.Lock()
	q.fail(err)
}

// fail keeps the first error of the blockWriter. The caller holds mu.
func (q *queue) fail(err error) {
	if err != nil && q.err == nil {
		q.err = err
		q.failed.Store(true)
		q.room.Signal()
	}
}
