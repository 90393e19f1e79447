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

// feedPatience is the timeout for sending a batch to a client, after which the client is dropped.
const feedPatience = time.Minute

// A feedClient is one connection of a feed. It belongs to its goroutine; any goroutine may call
// settle and progress.
type feedClient struct {
	*feedCursor
	conn  *feedConn
	wake  chan struct{}
	joins time.Time
	began capture.Accounts // the session's accounts when it joined

	mu      sync.Mutex
	flight  []sent           // packets sent but not yet acknowledged, in order
	arrived capture.Accounts // Captured and Bytes of the packets that have arrived
	size    int64            // bytes that have arrived
}

// sent has the offset, in a connection or in some blocks, at which a packet's block ends, and the
// packet's contribution to the accounts.
type sent struct {
	end           int64
	source, bytes uint32
}

// notSent is the end of a packet whose last byte was not yet written to the connection.
const notSent = math.MaxInt64

func newFeedClient(conn *feedConn, sources int) *feedClient {
	return &feedClient{conn: conn, wake: make(chan struct{}, 1), arrived: make(capture.Accounts, sources)}
}

// serve sends packets to a client that has joined, until the feed ends or the client goes away.
// Then it calls leave. It does not close the connection.
func (f *feed) serve(c *feedClient) (err error) {
	defer func() { f.leave(c, err) }()
	c.conn.listen()
	if err := f.send(c, f.header, nil); err != nil {
		return err
	}
	buf := make([]byte, 0, feedBatch)
	ended := false
	for {
		buf = f.log.read(c.feedCursor, buf[:0], feedBatch)
		signal(f.progressed)
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
			if !errors.Is(c.conn.readErr, io.EOF) {
				return c.conn.readErr
			}
			return net.ErrClosed
		}
	}
}

// trailer returns the last blocks of a client's stream.
func (f *feed) trailer(c *feedClient) []byte {
	if f.options.PCAP {
		return nil
	}
	b := f.log.describeRest(c.feedCursor, nil)
	for source, own := range f.statistics(c, f.final) {
		if own == (capture.Account{}) && c.reported.Of(source) != own {
			continue // the source has gone, and the client has its statistics
		}
		b = f.enc.AppendStatistics(b, source, c.numbers[source], own, c.joins, nil)
	}
	return b
}

// reportDeparture queues the statistics of a source that has gone for a client. The caller holds
// the log's mu. now are the session's accounts.
func (f *feed) reportDeparture(c *feedClient, source int, now capture.Accounts) {
	if f.options.PCAP {
		return
	}
	own := f.statistics(c, now).Of(source)
	c.departed = f.log.appendInterfaces(c.feedCursor, c.departed)
	c.departed = f.enc.AppendStatistics(c.departed, source, c.numbers[source], own, c.joins, nil)
	c.reported.At(source).Add(own)
}

// send writes bytes that contain these packets, within feedPatience or, at the end, until endsAt.
func (f *feed) send(c *feedClient, b []byte, packets []sent) error {
	f.bound(c, time.Now().Add(feedPatience))
	err := c.send(b, packets)
	if err == nil {
		// TLS may answer the peer long after the last packet, for example with a KeyUpdate. If that
		// answer failed because of an old deadline, the connection could not be used any more.
		f.bound(c, time.Time{})
	}
	return err
}

// bound sets the deadline for writes to a client; after the end it is endsAt instead.
func (f *feed) bound(c *feedClient, by time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.endsAt.IsZero() {
		by = f.endsAt
	}
	c.conn.SetWriteDeadline(by)
}

// send writes, and keeps the packets in flight until they have arrived. Without TLS a packet has
// arrived with the last byte of its block. With TLS packets arrive by the batch, because a peer
// cannot read part of a TLS record, and the ends of the records are not visible here.
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

// settle counts the packets that have arrived since the last call, and returns how many bytes have
// arrived in total. Any goroutine may call it until the connection is closed.
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

// progress returns, by source, the accounts of the packets that have arrived, and how many packets
// may still arrive because they are in flight or in the log. Both are read at one moment, so that
// no packet is missing from both. The caller holds the log's mu.
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

// statistics returns the accounts that end a client's stream: the session's counts since the client
// joined, with the client's own losses, and without statistics that the client already has of
// sources that have gone. The client also gets packets that were in a ring when it joined, so Seen
// is computed as the sum of the other counters.
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
	return own.Minus(c.reported)
}

// signal wakes the goroutine that receives from c, now or when it next receives.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
