package stream

import (
	"encoding/binary"
	"slices"
	"sync"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/pcapng"
)

const (
	// maxLog is the upper bound for the bytes of blocks that wait for the clients of a feed, all
	// clients together.
	maxLog = 16 << 20
	// minLog is the minimum size of a log: it holds a few of the longest blocks of a live capture.
	minLog = 1 << 20
	// minFilesLog is the minimum size of a log for capture files: it holds one of their longest
	// blocks, because their packets must not be lost.
	minFilesLog = pcapng.MaxBlock + capture.MaxOverhead
)

// logSize returns the size of the log when this many bytes of memory are available.
func logSize(available uint64, isLive bool) int {
	least := uint64(minLog)
	if !isLive {
		least = minFilesLog
	}
	return int(max(min(available/8, maxLog), least))
}

// A feedLog keeps the latest blocks of a feed, each in contiguous memory. New blocks overwrite the
// oldest ones, even if clients have not read them, so that add never waits. If a block is longer
// than the log, the log keeps only its header, so that each client counts the packet as lost at
// that position. Blocks in the log have the index of their source as interface number. One
// goroutine adds; each client reads at its own feedCursor, and gets blocks with the interface
// numbers of its stream.
type feedLog struct {
	mu         sync.RWMutex
	mem        []byte
	head, tail uint64          // positions after the last block and of the first one; they only grow
	added      []uint64        // by source: blocks before head
	evicted    []uint64        // by source: blocks before tail
	skipped    []uint64        // by source: packets while there was no client
	inHeader   int             // how many sources the header of each stream describes
	interfaces []feedInterface // the others
	described  int             // feedInterface.number of the last one
	asPCAP     bool            // read returns packets of pcap, and no descriptions
}

// A feedInterface is the description of a source that is not in the header of each stream.
type feedInterface struct {
	source int
	number int // counts the descriptions, from 1
	block  []byte
}

func newFeedLog(size, sources int) *feedLog {
	return &feedLog{
		mem: make([]byte, size), added: make([]uint64, sources), evicted: make([]uint64, sources), skipped: make([]uint64, sources), inHeader: sources,
	}
}

// size is how many bytes of blocks fit.
func (l *feedLog) size() int { return len(l.mem) }

// describe adds a source that is not in the header of each stream. It replaces an earlier source of
// the same index.
func (l *feedLog) describe(source int, block []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.described++
	l.interfaces = slices.DeleteFunc(l.interfaces, func(i feedInterface) bool { return i.source == source })
	l.interfaces = append(l.interfaces, feedInterface{source, l.described, block})
	for len(l.added) <= source {
		l.added, l.evicted, l.skipped = append(l.added, 0), append(l.evicted, 0), append(l.skipped, 0)
	}
}

// skip counts packets while there is no client.
func (l *feedLog) skip(packets []capture.Packet) {
	if len(packets) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range packets {
		l.skipped[packets[i].Source]++
	}
}

// written returns how many packets were added or skipped, by source. The caller holds mu.
func (l *feedLog) written() []uint64 {
	all := slices.Clone(l.added)
	for i, n := range l.skipped {
		all[i] += n
	}
	return all
}

// add adds blocks of packets. The packets' ends are relative to the first block. It changes the
// length of a block that is longer than the log.
func (l *feedLog) add(blocks []byte, packets []sent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	begins := int64(0)
	for i := range packets {
		block := blocks[begins:packets[i].end]
		begins = packets[i].end
		if len(block) > len(l.mem) {
			block = block[:pcapng.HeaderSize]
			binary.LittleEndian.PutUint32(block[4:], pcapng.HeaderSize)
		}
		l.makeRoom(len(block))
		copy(l.mem[l.head%uint64(len(l.mem)):], block)
		l.head += uint64(len(block))
		l.added[packets[i].source]++
	}
}

// makeRoom evicts the oldest blocks until n contiguous bytes are free, and moves head to them.
func (l *feedLog) makeRoom(n int) {
	size := uint64(len(l.mem))
	if rest := size - l.head%size; rest < uint64(n) {
		l.evict(l.head + rest)
		if rest >= pcapng.HeaderSize {
			binary.LittleEndian.PutUint32(l.mem[l.head%size+4:], 0) // length 0: no block here
		}
		l.head += rest
	}
	l.evict(l.head + uint64(n))
}

// evict drops the blocks that a head at this position would overwrite.
func (l *feedLog) evict(head uint64) {
	for head-l.tail > uint64(len(l.mem)) {
		block, next := l.block(l.tail)
		if block != nil {
			l.evicted[pcapng.PacketInterface(block)]++
		}
		l.tail = next
	}
}

// block returns the block at a position before head, and the position after it. The block is nil at
// the end of the memory, if that was too short for the next block.
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

// A feedCursor is a client's position in a log. It belongs to the client's goroutine.
type feedCursor struct {
	at      uint64           // position of the next block
	bytes   int64            // bytes of blocks that read has returned
	passed  []uint64         // by source: blocks before at
	pending []uint64         // by source: packets that the client lost, not yet reported in a block
	lost    capture.Accounts // Lost: all packets that the client lost, reported or not
	given   capture.Accounts // Captured and Bytes of the packets that read has returned
	batch   []sent           // the packets that the last read returned; their ends are relative to its start

	described int              // number of the last description in the client's stream
	numbers   []uint32         // by source: the number of its interface in the client's stream
	streamed  uint32           // how many interfaces the stream has
	departed  []byte           // statistics of sources that have gone, for the next read
	reported  capture.Accounts // sum of these statistics
}

// grow makes room for sources that were added since the client joined.
func (c *feedCursor) grow(sources int) {
	for len(c.passed) < sources {
		c.passed, c.pending = append(c.passed, 0), append(c.pending, 0)
		c.lost, c.given = append(c.lost, capture.Account{}), append(c.given, capture.Account{})
	}
}

// join returns a cursor at the end of the log.
func (l *feedLog) join() *feedCursor {
	l.mu.RLock()
	defer l.mu.RUnlock()
	n := len(l.added)
	c := &feedCursor{at: l.head, passed: make([]uint64, n), pending: make([]uint64, n), lost: make(capture.Accounts, n), given: make(capture.Accounts, n)}
	copy(c.passed, l.added)
	for c.streamed < uint32(l.inHeader) {
		c.numbers = append(c.numbers, c.streamed)
		c.streamed++
	}
	return c
}

// lostBy returns how many packets were overwritten before a client read them. It includes packets
// that the client's goroutine has not counted yet, because it waits in a write. Any goroutine may
// call it.
func (l *feedLog) lostBy(c *feedCursor) uint64 {
	l.mu.Lock() // so that no client reads
	defer l.mu.Unlock()
	c.grow(len(l.added))
	lost := c.lost.Total().Lost
	if c.at < l.tail {
		for i, evicted := range l.evicted {
			lost += evicted - c.passed[i]
		}
	}
	return lost
}

// waiting returns how many packets of one source in the log the client has not read yet. The caller
// holds mu.
func (l *feedLog) waiting(c *feedCursor, source int) uint64 {
	c.grow(len(l.added))
	return l.added[source] - max(c.passed[source], l.evicted[source])
}

// describeRest appends the interfaces that the client's stream does not have yet.
func (l *feedLog) describeRest(c *feedCursor, dst []byte) []byte {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.appendInterfaces(c, dst)
}

// read appends the next whole blocks to dst: as many as fit into limit bytes, and at least one if
// there is any. The first block of a source after a loss has the number of packets that the client
// lost.
func (l *feedLog) read(c *feedCursor, dst []byte, limit int) []byte {
	l.mu.RLock()
	defer l.mu.RUnlock()
	c.batch = c.batch[:0]
	c.grow(len(l.added))
	dst, c.departed = append(dst, c.departed...), nil
	if c.at < l.tail {
		for source, evicted := range l.evicted {
			c.lose(source, evicted-c.passed[source])
		}
		c.at = l.tail
	}
	for c.at < l.head {
		block, next := l.block(c.at)
		switch {
		case block == nil: // the unused end of the memory
		case len(block) == pcapng.HeaderSize: // the block was longer than the log
			c.lose(int(pcapng.PacketInterface(block)), 1)
		case len(dst) > 0 && len(dst)+len(block) > limit:
			return dst
		default:
			dst = l.appendBlock(c, dst, block)
			c.give(block, len(dst))
		}
		c.at = next
	}
	return dst
}

// lose counts the next packets of a source as lost.
func (c *feedCursor) lose(source int, packets uint64) {
	c.passed[source] += packets
	c.pending[source] += packets
	c.lost[source].Lost += packets
}

// give counts the next packet as returned by read. end is the end of its block in the result.
func (c *feedCursor) give(block []byte, end int) {
	p := sent{end: int64(end), source: pcapng.PacketInterface(block), bytes: uint32(pcapng.PacketSize(block))}
	c.batch = append(c.batch, p)
	c.bytes += int64(len(block))
	c.passed[p.source]++
	c.given[p.source].Captured++
	c.given[p.source].Bytes += uint64(p.bytes)
}

// appendBlock appends the block of a packet in the client's format and numbering.
func (l *feedLog) appendBlock(c *feedCursor, dst, block []byte) []byte {
	source := pcapng.PacketInterface(block)
	more := c.pending[source]
	c.pending[source] = 0
	if l.asPCAP {
		return pcapng.AppendPcapPacket(dst, pcapng.PcapMicroseconds, int64(pcapng.PacketTime(block)), pcapng.PacketWireLen(block), pcapng.PacketData(block))
	}
	dst = l.appendInterfaces(c, dst)
	start := len(dst)
	if more > 0 {
		dst = pcapng.AppendDropped(dst, block, more)
	} else {
		dst = append(dst, block...)
	}
	pcapng.SetPacketInterface(dst[start:], c.numbers[source])
	return dst
}

// appendInterfaces is describeRest for a caller that holds mu.
func (l *feedLog) appendInterfaces(c *feedCursor, dst []byte) []byte {
	if c.described == l.described {
		return dst
	}
	for _, i := range l.interfaces {
		if i.number <= c.described {
			continue
		}
		for len(c.numbers) <= i.source {
			c.numbers = append(c.numbers, 0)
		}
		c.numbers[i.source] = c.streamed
		c.streamed++
		dst = append(dst, i.block...)
	}
	c.described = l.described
	return dst
}
