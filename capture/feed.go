package capture

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/machine"
)

// feedBatch is about how many bytes a client is sent at once.
const feedBatch = 64 << 10

// A feed hands pcapng to any number of clients, to each from when it comes. It waits for none of
// them: a client that is slower by more than the log's length loses the oldest blocks, which are
// counted in its stream. Its methods begin, write, flush and end belong to the session's goroutine,
// and serve to one goroutine for each client.
type feed struct {
	options     WriterOptions
	patience    time.Duration // how long the end waits for clients
	description Description
	enc         *pcapngEncoder
	sources     int // of a capture file that were described to the log
	header      []byte
	chunk       *chunk
	untold      int // bytes in the log that the clients were not woken for

	some  atomic.Bool   // there are clients: for nobody, nothing is encoded
	took  chan struct{} // a client has come, gone, or taken something
	ended chan struct{}
	final Accounts // of the session; set before ended is closed

	mu      sync.Mutex
	log     *feedLog // nil before begin
	clients map[*feedClient]struct{}
	joined  bool      // somebody has come
	endsAt  time.Time // when nobody is waited for any more; zero before the end
	taken   Accounts  // Captured and Bytes: what has arrived at all clients that have left
	size    int64     // bytes that have arrived there
	lost    uint64    // packets that they lost, also those of which they were not told
}

func newFeed(o WriterOptions, patience time.Duration) *feed {
	return &feed{options: o, patience: patience, ended: make(chan struct{}), took: make(chan struct{}, 1), clients: make(map[*feedClient]struct{})}
}

func (f *feed) begin(d Description) (err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.description = d
	f.enc = newPCAPNGEncoder(&d, &f.options)
	f.header = f.enc.header(nil)
	f.taken = make(Accounts, len(d.Sources))
	f.log = newFeedLog(logSize(machine.AvailableMemory().Bytes), len(d.Sources))
	f.chunk, err = newChunk()
	return err
}

// write adds packets to the log. It allocates nothing for a packet.
func (f *feed) write(packets []Packet) {
	if f.description.files != nil {
		f.describe()
		f.await(f.log.size() / 2)
	}
	for f.some.Load() && len(packets) > 0 {
		f.chunk.reset(0)
		n, _ := f.enc.packets(f.chunk, packets) // pcapng has all
		f.log.add(f.chunk.blocks, f.chunk.packets, 0)
		f.untold += len(f.chunk.blocks)
		packets = packets[n:]
	}
	f.log.skip(packets)
	if f.untold >= feedBatch || f.options.Immediate {
		f.flush()
	}
}

// describe adds the sources of capture files that there are by now.
func (f *feed) describe() {
	for _, src := range f.description.more(f.sources) {
		f.sources++
		f.log.describe(f.enc.describe(nil, &src))
	}
}

// await waits until somebody has come, and until no client has to take more than this many bytes:
// the packets of capture files that are all there need not be lost. It ends when the reading is
// stopped.
func (f *feed) await(most int) {
	files := f.description.files
	if files == nil || files.live {
		return
	}
	for !f.isTaken(most) {
		f.flush()
		select {
		case <-f.took:
		case <-files.stopped:
			return
		}
	}
}

// isTaken tells whether somebody has come, and no client has to take more than this many bytes.
func (f *feed) isTaken(most int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log.mu.Lock() // nobody takes
	defer f.log.mu.Unlock()
	for c := range f.clients {
		if f.log.head-c.at > uint64(most) {
			return false
		}
	}
	return f.joined
}

// flushAll is flush, and waits as await does until the clients have taken everything.
func (f *feed) flushAll() {
	f.flush()
	f.await(0)
}

// flush wakes the clients, if there is something that they were not woken for.
func (f *feed) flush() {
	if f.untold == 0 {
		return
	}
	f.untold = 0
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.clients {
		signal(c.wake)
	}
}

// end tells the clients the final accounts, and for how long they are waited for. The caller waits
// for their goroutines.
func (f *feed) end(final Accounts) {
	f.final = final
	f.mu.Lock()
	f.endsAt = time.Now().Add(f.patience)
	for c := range f.clients {
		c.conn.SetDeadline(f.endsAt)
	}
	f.mu.Unlock()
	close(f.ended)
}

// release gives memory back, when nobody is served any more.
func (f *feed) release() {
	if f.chunk != nil {
		unix.Munmap(f.chunk.mem)
		f.chunk = nil
	}
}

// join lets a client take part from now on.
func (f *feed) join(conn *feedConn) *feedClient {
	c := newFeedClient(conn, len(f.description.Sources))
	c.joins = f.description.Started
	if f.description.Accounts != nil {
		if began, err := f.description.Accounts(); err == nil {
			c.began, c.joins = began, time.Now()
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.clients[c] = struct{}{}
	f.some.Store(true)
	f.joined = true
	signal(f.took)
	c.feedCursor = f.log.join()
	return c
}

// leave forgets a client, and counts what has arrived there. One that was closed because it took
// nothing, or at the end, has lost what has not arrived; one that has gone did not want it.
func (f *feed) leave(c *feedClient, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.clients, c)
	f.some.Store(len(f.clients) > 0)
	signal(f.took)
	f.log.mu.Lock()
	arrived, open := c.progress(f.log)
	f.log.mu.Unlock()
	f.taken = f.taken.plus(arrived)
	f.size += c.size
	f.lost += f.log.lostBy(c.feedCursor)
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		for _, n := range open {
			f.lost += n
		}
	}
}

// clientsNow returns how many clients there are, and how many packets all clients have lost so far.
func (f *feed) clientsNow() (clients int, lost uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	lost = f.lost
	for c := range f.clients {
		lost += f.log.lostBy(c.feedCursor)
	}
	return len(f.clients), lost
}

// takenNow returns how many packets and bytes have arrived so far, by source, and as NotTaken how
// many of those that were written have not and never will. The rest is on its way. A feed that has
// not begun returns nil. Any goroutine may call it.
func (f *feed) takenNow() Accounts {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.log == nil {
		return nil
	}
	f.log.mu.Lock() // so that nothing is written and nobody takes
	defer f.log.mu.Unlock()
	missed := f.log.written()
	taken := f.taken.sized(len(missed))
	for c := range f.clients {
		own, open := c.progress(f.log)
		taken = taken.plus(own)
		for i, n := range open {
			missed[i] -= n
		}
	}
	for i := range taken {
		taken[i].NotTaken = missed[i] - taken[i].Captured
	}
	return taken
}

// sizeNow is how many bytes have arrived at all clients together.
func (f *feed) sizeNow() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	size := f.size
	for c := range f.clients {
		size += c.settle()
	}
	return size
}
