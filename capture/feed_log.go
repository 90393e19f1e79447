package capture

import (
	"encoding/binary"
	"slices"
	"sync"

	"github.com/xdpcap/xdpcap/internal/pcapng"
)

const (
	// maxLog is how many bytes of blocks wait at most for the clients of a feed, for all together.
	maxLog = 16 << 20
	// minLog is how many they are at least: a few of the longest blocks.
	minLog = 1 << 20
)

// logSize is how many bytes of blocks wait where so many bytes of memory are available.
func logSize(available uint64) int { return int(max(min(available/8, maxLog), minLog)) }

// A feedLog keeps the last blocks of a feed, each whole and in one piece. What comes in
// overwrites the oldest ones, whether a client has them or not, so that nobody is waited for. One
// goroutine adds; each client takes from a place of its own.
type feedLog struct {
	mu         sync.RWMutex
	mem        []byte
	head, tail uint64   // the places, which only grow, behind the last block and of the first one
	added      []uint64 // blocks before head, by source
	gone       []uint64 // blocks before tail, by source
	skipped    []uint64 // packets that came while there was no client, by source
	interfaces [][]byte // descriptions of sources that no header has
}

func newFeedLog(size, sources int) *feedLog {
	return &feedLog{
		mem: make([]byte, size), added: make([]uint64, sources), gone: make([]uint64, sources), skipped: make([]uint64, sources),
	}
}

// size is how many bytes of blocks there is room for.
func (l *feedLog) size() int { return len(l.mem) }

// describe adds a source whose description no header has.
func (l *feedLog) describe(block []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.interfaces = append(l.interfaces, block)
	l.added, l.gone, l.skipped = append(l.added, 0), append(l.gone, 0), append(l.skipped, 0)
}

// skip counts packets that nobody is there for.
func (l *feedLog) skip(packets []Packet) {
	if len(packets) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range packets {
		l.skipped[packets[i].Source]++
	}
}

// written returns how many packets have come, by source. The caller holds mu.
func (l *feedLog) written() []uint64 {
	all := slices.Clone(l.added)
	for i, n := range l.skipped {
		all[i] += n
	}
	return all
}

// add adds blocks of packets, whose places are counted from start on.
func (l *feedLog) add(blocks []byte, packets []placed, start int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	begins := start
	for i := range packets {
		block := blocks[begins-start : packets[i].end-start]
		begins = packets[i].end
		l.makeRoom(len(block))
		copy(l.mem[l.head%uint64(len(l.mem)):], block)
		l.head += uint64(len(block))
		l.added[packets[i].source]++
	}
}

// makeRoom moves head to where so many bytes are free in one piece, and forgets the oldest blocks.
func (l *feedLog) makeRoom(n int) {
	size := uint64(len(l.mem))
	if rest := size - l.head%size; rest < uint64(n) {
		l.forget(l.head + rest)
		if rest >= pcapng.HeaderSize {
			binary.LittleEndian.PutUint32(l.mem[l.head%size+4:], 0) // no block is here
		}
		l.head += rest
	}
	l.forget(l.head + uint64(n))
}

// forget forgets what stands in the way of a head at this place.
func (l *feedLog) forget(head uint64) {
	for head-l.tail > uint64(len(l.mem)) {
		block, next := l.block(l.tail)
		if block != nil {
			l.gone[pcapng.PacketInterface(block)]++
		}
		l.tail = next
	}
}

// block returns the block at a place before head, and the place behind it. The block is nil where
// the rest of the memory was too short for one.
func (l *feedLog) block(at uint64) (block []byte, next uint64) {
	size := uint64(len(l.mem))
	b := l.mem[at%size:]
	if len(b) >= pcapng.HeaderSize {
		if n := binary.LittleEndian.Uint32(b[4:]); n != 0 {
			return b[:n], at + uint64(n)
		}
	}
	return nil, at + uint64(len(b))
}

// A feedCursor is where a client stands in a log. It belongs to the client's goroutine.
type feedCursor struct {
	at      uint64
	passed  []uint64 // blocks before at, by source
	pending []uint64 // packets that were overwritten before the client had them, and no block says so yet
	lost    Accounts // Lost: all of these
	given   Accounts // Captured and Bytes: what take has returned
	batch   []sent   // the packets that take has returned last; their places are counted from there on

	described int // of the log's interfaces that the client knows
}

// grow makes room for sources that were added since the client joined.
func (c *feedCursor) grow(sources int) {
	for len(c.passed) < sources {
		c.passed, c.pending = append(c.passed, 0), append(c.pending, 0)
		c.lost, c.given = append(c.lost, Account{}), append(c.given, Account{})
	}
}

// join returns a cursor at the end of what there is.
func (l *feedLog) join() *feedCursor {
	l.mu.RLock()
	defer l.mu.RUnlock()
	n := len(l.added)
	c := &feedCursor{at: l.head, passed: make([]uint64, n), pending: make([]uint64, n), lost: make(Accounts, n), given: make(Accounts, n)}
	copy(c.passed, l.added)
	return c
}

// lostBy returns how many packets were overwritten before a client had them, also where its
// goroutine has not seen that yet, because it waits for the client. Any goroutine may call it.
func (l *feedLog) lostBy(c *feedCursor) uint64 {
	l.mu.Lock() // nobody takes
	defer l.mu.Unlock()
	c.grow(len(l.added))
	lost := c.lost.Total().Lost
	if c.at < l.tail {
		for i, gone := range l.gone {
			lost += gone - c.passed[i]
		}
	}
	return lost
}

// waiting returns how many packets are in the log that a client was not given yet, of one source.
// The caller holds mu.
func (l *feedLog) waiting(c *feedCursor, source int) uint64 {
	c.grow(len(l.added))
	return l.added[source] - max(c.passed[source], l.gone[source])
}

// describeRest appends the interfaces that the client does not know yet.
func (l *feedLog) describeRest(c *feedCursor, dst []byte) []byte {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for ; c.described < len(l.interfaces); c.described++ {
		dst = append(dst, l.interfaces[c.described]...)
	}
	return dst
}

// take appends the next blocks to dst, whole ones, as many as fit into limit bytes, and at least
// one if there is any. The first one of a source behind a loss says how many the client lost.
func (l *feedLog) take(c *feedCursor, dst []byte, limit int) []byte {
	l.mu.RLock()
	defer l.mu.RUnlock()
	c.batch = c.batch[:0]
	c.grow(len(l.added))
	if c.at < l.tail {
		for i, gone := range l.gone {
			lost := gone - c.passed[i]
			c.pending[i] += lost
			c.lost[i].Lost += lost
			c.passed[i] = gone
		}
		c.at = l.tail
	}
	for c.at < l.head {
		block, next := l.block(c.at)
		if block == nil {
			c.at = next
			continue
		}
		if len(dst) > 0 && len(dst)+len(block) > limit {
			break
		}
		i := pcapng.PacketInterface(block)
		for ; c.described < len(l.interfaces); c.described++ {
			dst = append(dst, l.interfaces[c.described]...)
		}
		if more := c.pending[i]; more > 0 {
			dst = pcapng.AppendDropped(dst, block, more)
			c.pending[i] = 0
		} else {
			dst = append(dst, block...)
		}
		p := sent{end: int64(len(dst)), source: i, bytes: uint32(pcapng.PacketSize(block))}
		c.batch = append(c.batch, p)
		c.passed[i]++
		c.given[i].Captured++
		c.given[i].Bytes += uint64(p.bytes)
		c.at = next
	}
	return dst
}
