package capture

import (
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/machine"
)

const (
	// feedBatch is about how many bytes a client is sent at once.
	feedBatch = 64 << 10
	// feedPatience is how long a client may take for such a batch before it is given up.
	feedPatience = time.Minute
	// goneInterval is how often it is looked whether a client is still there.
	goneInterval = time.Second
)

// A feed hands pcapng to any number of clients, to each from when it comes. It waits for none of
// them: a client that is slower by more than the log's length loses the oldest blocks, which are
// counted in its stream. Its methods begin, write, flush and end belong to the session's goroutine,
// and serve to one goroutine for each client.
type feed struct {
	options     WriterOptions
	patience    time.Duration // how long the end waits for clients
	description Description
	enc         encoder
	header      []byte
	chunk       *chunk
	log         *feedLog
	untold      int // bytes in the log that the clients were not woken for

	size  atomic.Int64 // bytes that the clients have taken
	some  atomic.Bool  // there are clients: for nobody, nothing is encoded
	ended chan struct{}
	final Accounts // of the session; set before ended is closed

	mu      sync.Mutex
	clients map[*feedClient]struct{}
	endsAt  time.Time // when nobody is waited for any more; zero before the end
	taken   Accounts  // Captured and Bytes: of all clients that have left
	lost    uint64    // packets that they lost, also those of which they were not told
}

// A feedClient is one connection of a feed.
type feedClient struct {
	*feedCursor
	conn  net.Conn
	wake  chan struct{}
	joins time.Time
	began Accounts // the session's then
}

func newFeed(o WriterOptions, patience time.Duration) *feed {
	return &feed{options: o, patience: patience, ended: make(chan struct{}), clients: make(map[*feedClient]struct{})}
}

func (f *feed) begin(d Description) (err error) {
	f.description = d
	f.enc = newEncoder(&d, &f.options)
	f.header = f.enc.header(nil)
	f.taken = make(Accounts, len(d.Sources))
	f.log = newFeedLog(logSize(machine.AvailableMemory().Bytes), len(d.Sources))
	f.chunk, err = newChunk()
	return err
}

// write adds packets to the log. It allocates nothing.
func (f *feed) write(packets []Packet) {
	for f.some.Load() && len(packets) > 0 {
		f.chunk.reset(0)
		n := f.enc.packets(f.chunk, packets)
		f.log.add(f.chunk.blocks, f.chunk.packets, 0)
		f.untold += len(f.chunk.blocks)
		packets = packets[n:]
	}
	if f.untold >= feedBatch || f.options.Immediate {
		f.flush()
	}
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

// serve hands a client that has joined what comes, until the feed ends or the client goes, which
// then has left. It does not close the connection.
func (f *feed) serve(c *feedClient) error {
	defer f.leave(c)
	if err := f.send(c, f.header); err != nil {
		return err
	}
	looks := time.NewTicker(goneInterval)
	defer looks.Stop()
	buf := make([]byte, 0, feedBatch)
	ended, before := false, make(Accounts, len(c.given))
	for {
		copy(before, c.given)
		buf = f.log.take(c.feedCursor, buf[:0], feedBatch)
		if len(buf) > 0 {
			if err := f.send(c, buf); err != nil {
				c.given = before
				return err
			}
			if cap(buf) > 2*feedBatch {
				buf = make([]byte, 0, feedBatch)
			}
			continue
		}
		if ended {
			return f.send(c, f.enc.trailer(nil, f.statistics(c)))
		}
		select {
		case <-c.wake:
		case <-f.ended:
			ended = true
		case <-looks.C:
			if isGone(c.conn) {
				return net.ErrClosed
			}
		}
	}
}

// join lets a client take part from now on.
func (f *feed) join(conn net.Conn) *feedClient {
	c := &feedClient{conn: conn, wake: make(chan struct{}, 1)}
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
	c.feedCursor = f.log.join()
	return c
}

// leave forgets a client, and counts what it has got.
func (f *feed) leave(c *feedClient) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.clients, c)
	f.some.Store(len(f.clients) > 0)
	f.taken = f.taken.plus(c.given)
	f.lost += f.log.lostBy(c.feedCursor)
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

// send writes within a time.
func (f *feed) send(c *feedClient, b []byte) error {
	f.mu.Lock()
	by := f.endsAt
	if by.IsZero() {
		by = time.Now().Add(feedPatience)
	}
	c.conn.SetWriteDeadline(by)
	f.mu.Unlock()
	n, err := c.conn.Write(b)
	f.size.Add(int64(n))
	return err
}

// statistics are what stands at the end of a client's stream: what the session has counted since
// the client came, with the client's own losses. What was in a ring then is seen by this client, so
// seen is the sum of the rest.
func (f *feed) statistics(c *feedClient) *statistics {
	own := f.final
	if c.began != nil {
		own = own.without(c.began)
	}
	own = own.Delivered(own) // a copy
	for i := range own {
		a := &own[i]
		a.Captured, a.Bytes = c.given[i].Captured, c.given[i].Bytes
		a.NotTaken = c.lost[i].Lost
		a.Lost += a.NotTaken
		a.Seen = a.explained() + uint64(a.Unexplained)
	}
	return &statistics{Accounts: own, start: c.joins}
}

// isGone tells whether the other end of a TCP connection takes nothing any more. One that only
// sends nothing any more may go on reading.
func isGone(conn net.Conn) (gone bool) {
	if wrapped, ok := conn.(interface{ NetConn() net.Conn }); ok { // TLS
		conn = wrapped.NetConn()
	}
	raw, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	control, err := raw.SyscallConn()
	if err != nil {
		return true
	}
	err = control.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd)}}
		n, err := unix.Poll(fds, 0)
		gone = err == nil && n == 1 && fds[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0
	})
	return gone || err != nil
}
