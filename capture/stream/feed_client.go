package stream

import (
	"errors"
	"io"
	"math"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/xdpcap/xdpcap/capture"
)

// feedPatience is how long a client may take for a batch before it is dropped.
const feedPatience = time.Minute

// A feedClient is one connection of a feed. It belongs to its goroutine; any goroutine may ask what
// has arrived.
type feedClient struct {
	*feedCursor
	conn  *feedConn
	wake  chan struct{}
	joins time.Time
	began capture.Accounts // the session's accounts at that time

	mu      sync.Mutex
	flight  []sent           // packets on their way, in their order
	arrived capture.Accounts // Captured and Bytes: of those that have arrived
	size    int64            // bytes that have arrived
}

// sent says at which byte of a connection, or of some blocks, a packet's block ends, and what the
// packet adds to the accounts.
type sent struct {
	end           int64
	source, bytes uint32
}

// notSent is the end of a packet whose last byte the connection has not taken yet.
const notSent = math.MaxInt64

func newFeedClient(conn *feedConn, sources int) *feedClient {
	return &feedClient{conn: conn, wake: make(chan struct{}, 1), arrived: make(capture.Accounts, sources)}
}

// serve sends packets to a client that has joined, until the feed ends or the client goes away.
// Then it lets the client leave. It does not close the connection.
func (f *feed) serve(c *feedClient) (err error) {
	defer func() { f.leave(c, err) }()
	c.conn.listen()
	if err := f.send(c, f.header, nil); err != nil {
		return err
	}
	buf := make([]byte, 0, feedBatch)
	ended := false
	for {
		buf = f.log.take(c.feedCursor, buf[:0], feedBatch)
		signal(f.took)
		if len(buf) > 0 {
			if err := f.send(c, buf, c.batch); err != nil {
				return err
			}
			if cap(buf) > 2*feedBatch {
				buf = make([]byte, 0, feedBatch)
			}
			continue
		}
		if ended {
			if err := f.send(c, f.trailer(c), nil); err != nil {
				return err
			}
			return c.conn.finish(f.endsAt)
		}
		select {
		case <-c.wake:
		case <-f.ended:
			ended = true
		case <-c.conn.gone:
			if !errors.Is(c.conn.why, io.EOF) {
				return c.conn.why
			}
			return net.ErrClosed
		}
	}
}

// trailer is what a client's stream ends with.
func (f *feed) trailer(c *feedClient) []byte {
	if f.options.PCAP {
		return nil
	}
	b := f.log.describeRest(c.feedCursor, nil)
	for source, own := range f.statistics(c, f.final) {
		if own == (capture.Account{}) && c.told.Of(source) != own {
			continue // the source has gone, and the client was told
		}
		b = f.enc.AppendStatistics(b, source, c.numbers[source], own, c.joins, nil)
	}
	return b
}

// tellDeparture gives a client the statistics of a source that has gone. The caller holds the log's
// mu. now are the session's accounts.
func (f *feed) tellDeparture(c *feedClient, source int, now capture.Accounts) {
	if f.options.PCAP {
		return
	}
	own := f.statistics(c, now).Of(source)
	c.departed = f.log.appendInterfaces(c.feedCursor, c.departed)
	c.departed = f.enc.AppendStatistics(c.departed, source, c.numbers[source], own, c.joins, nil)
	c.told.At(source).Add(own)
}

// send writes bytes that contain these packets, within feedPatience or, at the end, until endsAt.
func (f *feed) send(c *feedClient, b []byte, packets []sent) error {
	f.bound(c, time.Now().Add(feedPatience))
	err := c.send(b, packets)
	if err == nil {
		// TLS answers a peer by itself, which may be long after the last packet. If a deadline that
		// has passed failed the answer, nothing more could be sent.
		f.bound(c, time.Time{})
	}
	return err
}

// bound sets the deadline of what is written to a client; at the end it is endsAt instead.
func (f *feed) bound(c *feedClient, by time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.endsAt.IsZero() {
		by = f.endsAt
	}
	c.conn.SetWriteDeadline(by)
}

// send writes, and remembers which packets are on their way until they have arrived. Without TLS a
// packet has arrived with the last byte of its block. With TLS packets arrive by the batch, because
// nobody can read part of a TLS record, and the ends of the records are not known here.
func (c *feedClient) send(b []byte, packets []sent) error {
	start := c.conn.taken()
	c.mu.Lock()
	for _, p := range packets {
		if p.end += start; c.conn.isSecure() {
			p.end = notSent
		}
		c.flight = append(c.flight, p)
	}
	c.mu.Unlock()
	_, err := c.conn.Write(b)
	if err == nil && c.conn.isSecure() {
		c.mu.Lock()
		for i := range packets {
			c.flight[len(c.flight)-1-i].end = c.conn.taken()
		}
		c.mu.Unlock()
	}
	c.settle()
	return err
}

// settle counts the packets that have arrived by now, and returns how many bytes have arrived. Any
// goroutine may call it until the connection is closed.
func (c *feedClient) settle() (bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.settleLocked()
}

// settleLocked is settle for a caller that holds mu.
func (c *feedClient) settleLocked() (bytes int64) {
	c.size = max(c.size, c.conn.arrived())
	n := 0
	for ; n < len(c.flight) && c.flight[n].end <= c.size; n++ {
		p := &c.flight[n]
		a := c.arrived.At(int(p.source))
		a.Captured++
		a.Bytes += uint64(p.bytes)
	}
	c.flight = append(c.flight[:0], c.flight[n:]...)
	return c.size
}

// progress returns, by source, what has arrived by now, and how many packets may still arrive
// because they are on their way or in the log. Both are taken at one moment, so that no packet is
// missing from both. The caller holds the log's mu.
func (c *feedClient) progress(l *feedLog) (arrived capture.Accounts, open []uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settleLocked()
	c.grow(len(l.added))
	open = make([]uint64, len(c.given))
	for i := range open {
		open[i] = c.given[i].Captured - c.arrived.Of(i).Captured + l.waiting(c.feedCursor, i)
	}
	return slices.Clone(c.arrived), open
}

// statistics returns the accounts that end a client's stream: what the session has counted since
// the client joined, with the client's own losses, and without what it was told of sources that
// have gone. The client also sees packets that were in a ring when it joined, so Seen is computed
// as the sum of the rest.
func (f *feed) statistics(c *feedClient, session capture.Accounts) capture.Accounts {
	own := session
	if c.began != nil {
		own = own.Minus(c.began)
	}
	own = own.Delivered(own) // a copy
	for i := range own {
		a := &own[i]
		given := c.given.Of(i)
		a.Captured, a.Bytes = given.Captured, given.Bytes
		a.NotTaken = c.lost.Of(i).Lost
		a.Lost += a.NotTaken
		a.Seen = a.Explained() + uint64(a.Unexplained)
	}
	return own.Minus(c.told)
}
