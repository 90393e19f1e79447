package stream

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/pcapng"
)

const (
	// feedBatch is about how many bytes are sent to a client at once.
	feedBatch = 64 << 10
	// encodeBatch is the upper bound for the bytes of blocks that are added to the log at once,
	// unless one block is longer.
	encodeBatch = 256 << 10
)

// A feed sends pcapng or pcap to any number of clients, to each from the moment it joins. It is the
// part that Server and Sender have in common. In a live session it does not wait for slow clients:
// a client that falls behind by more than the log's length loses the oldest blocks, and a stream of
// pcapng has the count. Its methods begin, Write, Flush and end belong to the session's goroutine,
// and serve to one goroutine for each client.
type feed struct {
	options     Options
	patience    time.Duration // how long the end waits for clients
	description capture.Description
	enc         *capture.Encoder
	sources     *capture.SourceList // only for capture files
	header      []byte
	blocks      []byte // reused by encode
	ends        []sent // the packets in blocks
	unflushed   int    // bytes added to the log since flush last woke the clients

	hasClients atomic.Bool   // without clients no packet is encoded
	progressed chan struct{} // a client has joined, left, or read from the log
	ended      chan struct{}
	final      capture.Accounts // of the session; set before ended is closed

	mu      sync.Mutex
	log     *feedLog // nil before begin
	clients map[*feedClient]struct{}
	joined  bool      // a client has joined
	endsAt  time.Time // deadline of the end for clients; zero before the end

	// The sums over the clients that have left.
	taken capture.Accounts // Captured and Bytes that arrived at them
	size  int64            // bytes that arrived at them
	read  int64            // bytes of blocks that they read from the log
	lost  uint64           // packets that they lost, including losses that no block reported
}

func newFeed(o Options, patience time.Duration) *feed {
	return &feed{options: o, patience: patience, ended: make(chan struct{}), progressed: make(chan struct{}, 1), clients: make(map[*feedClient]struct{})}
}

func (f *feed) begin(d capture.Description) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.description = d
	f.enc = capture.NewEncoder(&d, capture.EncoderOptions{
		Application: f.options.Application, CommandLine: f.options.CommandLine, Comments: f.options.Comments,
	})
	f.header = f.enc.Header(nil)
	if f.options.PCAP {
		f.header = pcapng.AppendPcapHeader(nil, pcapng.PcapMicroseconds, uint32(d.Options.SnapLen), pcapng.Ethernet)
	}
	f.sources = capture.NewSourceList(&d)
	f.taken = make(capture.Accounts, len(d.Sources))
	f.log = newFeedLog(logSize(machine.AvailableMemory().Bytes, d.IsLive()), len(d.Sources))
	f.log.asPCAP = f.options.PCAP
	for i := range d.Sources {
		if err := f.check(&d.Sources[i]); err != nil {
			return err
		}
	}
	return nil
}

// check returns an error for a source whose packets a stream of pcap cannot have.
func (f *feed) check(s *capture.Source) error {
	if f.options.PCAP && !s.IsEthernet() {
		return fmt.Errorf("a stream of pcap has packets of one link type, %s, and those of %s have %s: send pcapng",
			pcapng.LinkTypeName(pcapng.Ethernet), s.Label(), pcapng.LinkTypeName(s.LinkType()))
	}
	return nil
}

// Write queues packets for the clients: it adds them to the log, and does not wait, except for
// packets of complete capture files. It allocates no memory per packet.
func (f *feed) Write(packets []capture.Packet) error {
	if f.description.More != nil {
		if err := f.describe(); err != nil {
			return err
		}
		f.await(f.log.size()) // until a client has joined
	}
	for f.hasClients.Load() && len(packets) > 0 {
		n := f.encode(packets)
		// Twice the length, because the end of the log's memory may be too short for a block, and
		// then stays unused.
		f.await(max(f.log.size()-2*len(f.blocks), 0))
		f.log.add(f.blocks, f.ends)
		f.unflushed += len(f.blocks)
		packets = packets[n:]
	}
	f.log.skip(packets)
	if f.unflushed >= feedBatch || f.options.Immediate {
		f.flush()
	}
	return nil
}

// encode encodes the first packets, into at most encodeBatch bytes or one longer block, and returns
// how many.
func (f *feed) encode(packets []capture.Packet) (n int) {
	f.blocks, f.ends = f.blocks[:0], f.ends[:0]
	for ; n < len(packets); n++ {
		p := &packets[n]
		before := len(f.blocks)
		f.blocks = f.enc.Append(f.blocks, p)
		if n > 0 && len(f.blocks) > encodeBatch {
			f.blocks = f.blocks[:before] // encoded again in the next batch
			break
		}
		pcapng.SetPacketInterface(f.blocks[before:], uint32(p.Source)) // replaced by each client's own number
		f.ends = append(f.ends, sent{end: int64(len(f.blocks)), source: uint32(p.Source), bytes: uint32(len(p.Data))})
	}
	return n
}

// describe adds the sources that were found in capture files, or were added to a live capture,
// since the last call.
func (f *feed) describe() error {
	found, of := f.enc.AddSources(), f.enc.Source
	if !f.description.IsLive() {
		found, of = f.sources.Update(), f.sources.Of
	}
	for _, source := range found {
		if err := f.check(of(source)); err != nil {
			return err
		}
		f.log.describe(source, f.enc.Describe(nil, of(source)))
	}
	return nil
}

// Forget implements [capture.Forgetter]. It returns true once all clients have received or lost all
// packets of the source, and then sends the source's statistics.
func (f *feed) Forget(source int) bool {
	f.describe()
	now, err := f.description.Accounts()
	if err != nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log.mu.Lock() // so that no client reads
	defer f.log.mu.Unlock()
	for c := range f.clients {
		if _, open := c.progress(f.log); source < len(open) && open[source] > 0 {
			return false
		}
	}
	for c := range f.clients {
		f.reportDeparture(c, source, now)
		signal(c.wake)
	}
	return true
}

// await waits until a client has joined and no client has more than `most` bytes left to read. It
// returns early when the reading is stopped. In a live capture it does not wait.
func (f *feed) await(most int) {
	if f.description.Stopped == nil {
		return
	}
	for !f.hasRead(most) {
		f.flush()
		select {
		case <-f.progressed:
		case <-f.description.Stopped:
			return
		}
	}
}

// hasRead reports whether a client has joined and no client has more than `most` bytes left to
// read.
func (f *feed) hasRead(most int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log.mu.Lock() // so that no client reads
	defer f.log.mu.Unlock()
	for c := range f.clients {
		if f.log.head-c.at > uint64(most) {
			return false
		}
	}
	return f.joined
}

// Flush starts to send the added packets. With complete capture files it waits until all clients
// have read them from the log.
func (f *feed) Flush() error {
	f.flush()
	f.await(0)
	return nil
}

// flush wakes the clients if blocks were added since the last call.
func (f *feed) flush() {
	if f.unflushed == 0 {
		return
	}
	f.unflushed = 0
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.clients {
		signal(c.wake)
	}
}

// end gives the clients' goroutines the final accounts and a deadline. The caller waits for them.
func (f *feed) end(final capture.Accounts) {
	f.final = final
	if f.description.More != nil && f.description.IsLive() {
		f.describe() // also sources without packets, which have statistics
	}
	f.mu.Lock()
	f.endsAt = time.Now().Add(f.patience)
	for c := range f.clients {
		c.conn.SetDeadline(f.endsAt)
	}
	f.mu.Unlock()
	close(f.ended)
}

// join adds a client, which gets the packets from now on.
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
	f.hasClients.Store(true)
	f.joined = true
	signal(f.progressed)
	c.feedCursor = f.log.join()
	return c
}

// leave removes a client and counts the packets that have arrived at it. If the feed closed the
// connection because the client stopped reading or the session ended, the other packets count as
// lost. If the client closed the connection, they do not.
func (f *feed) leave(c *feedClient, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.clients, c)
	f.hasClients.Store(len(f.clients) > 0)
	signal(f.progressed)
	f.log.mu.Lock()
	arrived, open := c.progress(f.log)
	f.log.mu.Unlock()
	f.taken = f.taken.Plus(arrived)
	f.size, f.read = f.size+c.size, f.read+c.bytes
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

// takenNow returns by source the packets and bytes that have arrived so far (Captured, Bytes), and
// the packets that were written and cannot arrive any more (NotTaken). The others may still arrive.
// It is nil before begin. Any goroutine may call it.
func (f *feed) takenNow() capture.Accounts {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.log == nil {
		return nil
	}
	f.log.mu.Lock() // so that no packets are added and no client reads
	defer f.log.mu.Unlock()
	missed := f.log.written()
	taken := f.taken.Plus(make(capture.Accounts, len(missed)))
	for c := range f.clients {
		own, open := c.progress(f.log)
		taken = taken.Plus(own)
		for i, n := range open {
			missed[i] -= n
		}
	}
	for i := range taken {
		taken[i].NotTaken = missed[i] - taken[i].Captured
	}
	return taken
}

// backlog returns how many bytes of blocks the clients have read from the log (taken), the sum of
// taken and the bytes that wait for the slowest client (added), and how many bytes may wait
// (limit).
func (f *feed) backlog() (added, taken, limit int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log.mu.Lock() // so that no client reads
	defer f.log.mu.Unlock()
	taken, waits := f.read, uint64(0)
	for c := range f.clients {
		taken += c.bytes
		waits = max(waits, f.log.head-max(c.at, f.log.tail))
	}
	return taken + int64(waits), taken, int64(f.log.size())
}

// Size returns how many bytes have arrived at all clients together. Any goroutine may call it.
func (f *feed) Size() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	size := f.size
	for c := range f.clients {
		size += c.settle()
	}
	return size
}
