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
	"github.com/xdpcap/xdpcap/internal/pcap"
	"github.com/xdpcap/xdpcap/internal/pcapng"
)

const (
	// feedBatch is about how many bytes are sent to a client at once.
	feedBatch = 64 << 10
	// encodeBatch is the most bytes of blocks that are added to the log at once, unless one block
	// is longer.
	encodeBatch = 256 << 10
)

// A feed sends pcapng or pcap to any number of clients, to each from the moment it joins. It does
// not wait for slow clients: a client that falls behind by more than the log's length loses the
// oldest blocks, and a stream of pcapng has the count. Its methods begin, write, flush and end
// belong to the session's goroutine, and serve to one goroutine for each client.
type feed struct {
	options     Options
	patience    time.Duration // how long the end waits for clients
	description capture.Description
	enc         *capture.Encoder
	sources     *capture.SourceList // of capture files
	header      []byte
	blocks      []byte // reused by encode
	ends        []sent // of the blocks
	untold      int    // bytes added to the log since the clients were last woken

	some  atomic.Bool   // there are clients; without any, nothing is encoded
	took  chan struct{} // a client has come, gone, or taken something
	ended chan struct{}
	final capture.Accounts // of the session; set before ended is closed

	mu      sync.Mutex
	log     *feedLog // nil before begin
	clients map[*feedClient]struct{}
	joined  bool             // a client has joined
	endsAt  time.Time        // how long the end waits for clients; zero before the end
	taken   capture.Accounts // Captured and Bytes: what arrived at the clients that have left
	size    int64            // bytes that arrived at them
	left    int64            // bytes of blocks that they took from the log
	lost    uint64           // packets that they lost, including losses that no block told them
}

func newFeed(o Options, patience time.Duration) *feed {
	return &feed{options: o, patience: patience, ended: make(chan struct{}), took: make(chan struct{}, 1), clients: make(map[*feedClient]struct{})}
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
		f.header = pcap.AppendHeader(nil, pcap.Microseconds, uint32(d.Options.SnapLen), pcapng.Ethernet)
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

// check refuses a source whose packets a stream of pcap cannot have beside those of others.
func (f *feed) check(s *capture.Source) error {
	if f.options.PCAP && !s.IsEthernet() {
		return fmt.Errorf("a stream of pcap has packets of one link type, %s, and those of %s have %s: send pcapng",
			pcapng.LinkTypeName(pcapng.Ethernet), s.Label(), pcapng.LinkTypeName(s.LinkType()))
	}
	return nil
}

// write adds packets to the log. It allocates nothing for a packet.
func (f *feed) write(packets []capture.Packet) error {
	if f.description.More != nil {
		if err := f.describe(); err != nil {
			return err
		}
		f.await(f.log.size()) // until a client has joined
	}
	for f.some.Load() && len(packets) > 0 {
		n := f.encode(packets)
		// Twice, because the rest of the memory may be too short for a block and then stays unused.
		f.await(max(f.log.size()-2*len(f.blocks), 0))
		f.log.add(f.blocks, f.ends)
		f.untold += len(f.blocks)
		packets = packets[n:]
	}
	f.log.skip(packets)
	if f.untold >= feedBatch || f.options.Immediate {
		f.flush()
	}
	return nil
}

// encode makes blocks of the first packets, at most encodeBatch bytes or one longer block, and
// returns of how many packets.
func (f *feed) encode(packets []capture.Packet) (n int) {
	f.blocks, f.ends = f.blocks[:0], f.ends[:0]
	for ; n < len(packets); n++ {
		p := &packets[n]
		before := len(f.blocks)
		f.blocks = f.enc.Append(f.blocks, p)
		if n > 0 && len(f.blocks) > encodeBatch {
			f.blocks = f.blocks[:before] // its block is made again for the next batch
			break
		}
		pcapng.SetPacketInterface(f.blocks[before:], uint32(p.Source)) // each client has numbers of its own
		f.ends = append(f.ends, sent{end: int64(len(f.blocks)), source: uint32(p.Source), bytes: uint32(len(p.Data))})
	}
	return n
}

// describe adds the sources that were found in capture files, or have come, since the last call.
func (f *feed) describe() error {
	found, of := f.enc.Coming(), f.enc.Source
	if !f.description.IsLive() {
		found, of = f.sources.Look(), f.sources.Of
	}
	for _, source := range found {
		if err := f.check(of(source)); err != nil {
			return err
		}
		f.log.describe(source, f.enc.Describe(nil, of(source)))
	}
	return nil
}

// forget returns whether all clients have got all packets of a source whose interface has gone. If
// so, its statistics follow.
func (f *feed) forget(source int) bool {
	f.describe()
	now, err := f.description.Accounts()
	if err != nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log.mu.Lock() // so that no client takes
	defer f.log.mu.Unlock()
	for c := range f.clients {
		if _, open := c.progress(f.log); source < len(open) && open[source] > 0 {
			return false
		}
	}
	for c := range f.clients {
		f.tellDeparture(c, source, now)
		signal(c.wake)
	}
	return true
}

// await waits until a client has joined and no client has more than `most` bytes left to take. It
// does so only for complete capture files, whose packets need not be lost. It returns early when
// the reading is stopped.
func (f *feed) await(most int) {
	if f.description.Stopped == nil {
		return
	}
	for !f.isTaken(most) {
		f.flush()
		select {
		case <-f.took:
		case <-f.description.Stopped:
			return
		}
	}
}

// isTaken reports whether a client has joined and no client has more than `most` bytes left to
// take.
func (f *feed) isTaken(most int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log.mu.Lock() // so that no client takes
	defer f.log.mu.Unlock()
	for c := range f.clients {
		if f.log.head-c.at > uint64(most) {
			return false
		}
	}
	return f.joined
}

// flushAll flushes, and then waits like await until the clients have taken everything.
func (f *feed) flushAll() {
	f.flush()
	f.await(0)
}

// flush wakes the clients if blocks were added since it last did.
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

// end gives the clients' goroutines the final accounts and a deadline. The caller waits for them.
func (f *feed) end(final capture.Accounts) {
	f.final = final
	if f.description.More != nil && f.description.IsLive() {
		f.describe() // the statistics are about those without packets, too
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
	f.some.Store(true)
	f.joined = true
	signal(f.took)
	c.feedCursor = f.log.join()
	return c
}

// leave removes a client and counts what has arrived at it. What has not arrived is lost if the
// client was closed because it took nothing or because of the end. If the client itself went away,
// it is not.
func (f *feed) leave(c *feedClient, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.clients, c)
	f.some.Store(len(f.clients) > 0)
	signal(f.took)
	f.log.mu.Lock()
	arrived, open := c.progress(f.log)
	f.log.mu.Unlock()
	f.taken = f.taken.Plus(arrived)
	f.size, f.left = f.size+c.size, f.left+c.took
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

// takenNow returns by source how many packets and bytes have arrived so far. NotTaken counts
// packets that were written and will never arrive. The rest is on its way. A feed that has not
// begun returns nil. Any goroutine may call it.
func (f *feed) takenNow() capture.Accounts {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.log == nil {
		return nil
	}
	f.log.mu.Lock() // so that nothing is written and no client takes
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

// backlog returns how many bytes of blocks the clients have taken from the log, how many with those
// that wait for the slowest one, and how many may wait.
func (f *feed) backlog() (added, taken, limit int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log.mu.Lock() // so that no client takes
	defer f.log.mu.Unlock()
	taken, waits := f.left, uint64(0)
	for c := range f.clients {
		taken += c.took
		waits = max(waits, f.log.head-max(c.at, f.log.tail))
	}
	return taken + int64(waits), taken, int64(f.log.size())
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

// signal wakes the goroutine that receives from c, now or when it next receives.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
