package stream

import (
	"bytes"
	"encoding/binary"
	"math/rand"
	"net"
	"slices"
	"testing"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/pcapng"
)

// With blocks of random sizes and clients of random speed, each client gets whole blocks in order,
// and the drop counts are exactly the missing packets.
func TestFeedLog(t *testing.T) {
	t.Parallel()
	feedTest(t)
	random := rand.New(rand.NewSource(1))
	const sources = 3
	l := newFeedLog(4096, sources)
	type reader struct {
		*feedCursor
		got, dropped [sources]uint64
		joined       [sources]uint64
		last         [sources]uint64
	}
	var readers []*reader
	var written [sources]uint64
	read := func(r *reader, limit int) int {
		before := r.given.Total().Captured
		b := l.read(r.feedCursor, nil, limit)
		for n := 0; n < len(b); {
			size, _, err := pcapng.BlockLength(b[n:], false)
			must(t, err)
			block, err := pcapng.ParseBlock(b[n:n+size], false)
			must(t, err)
			var p pcapng.Packet
			must(t, pcapng.ParsePacket(block, 0, &p))
			i := p.Interface
			if p.ID <= r.last[i] {
				t.Fatalf("packet %d behind packet %d", p.ID, r.last[i])
			}
			if p.ID != r.last[i]+p.Dropped+1 {
				t.Fatalf("packet %d behind packet %d says that %d are missing", p.ID, r.last[i], p.Dropped)
			}
			r.last[i] = p.ID
			r.got[i]++
			r.dropped[i] += p.Dropped
			n += size
		}
		return int(r.given.Total().Captured - before)
	}
	for round := range 20_000 {
		if round%2_000 == 0 {
			r := &reader{feedCursor: l.join(), joined: written, last: written}
			readers = append(readers, r)
		}
		source := random.Intn(sources)
		written[source]++
		block := pcapng.AppendPacket(nil, &pcapng.Packet{
			Interface: uint32(source), Data: make([]byte, random.Intn(300)), Fields: pcapng.HasID, ID: written[source],
		})
		l.add(block, []sent{{end: int64(len(block)), source: uint32(source)}})
		for i, r := range readers {
			if random.Intn(1+i*i) == 0 {
				read(r, random.Intn(2000))
			}
		}
	}
	for i, r := range readers {
		for read(r, 1000) > 0 {
		}
		for s := range sources {
			if total := r.got[s] + r.lost[s].Lost; total != written[s]-r.joined[s] || r.dropped[s]+r.pending[s] != r.lost[s].Lost {
				t.Errorf("reader %d, source %d: got %d, lost %d, of %d; dropped %d, pending %d",
					i, s, r.got[s], r.lost[s].Lost, written[s]-r.joined[s], r.dropped[s], r.pending[s])
			}
		}
	}
	if readers[0].lost.Total().Lost != 0 || readers[len(readers)-1].lost.Total().Lost == 0 {
		t.Error("the first reader is to lose nothing, and the last one something")
	}
}

// Each client loses a block that is longer than the log at its position, but not the blocks around
// it.
func TestFeedLogLongBlock(t *testing.T) {
	t.Parallel()
	feedTest(t)
	for _, longer := range []int{4, 16, 4096, 100_000} { // than the log
		l := newFeedLog(4096, 2)
		takes, joins := l.join(), l.join()
		add := func(id uint64, source uint32, data int) {
			block := pcapng.AppendPacket(nil, &pcapng.Packet{Interface: source, Data: make([]byte, data), Fields: pcapng.HasID, ID: id})
			l.add(block, []sent{{end: int64(len(block)), source: source}})
		}
		bare := len(pcapng.AppendPacket(nil, &pcapng.Packet{Fields: pcapng.HasID}))
		for round := range uint64(200) { // so that the blocks are at all offsets of the log
			add(3*round, 0, 60)
			add(3*round+1, 1, 4096-bare+longer)
			add(3*round+2, 0, int(round))
			before := takes.given.Total().Captured
			b := l.read(takes, nil, 1<<20)
			if n := takes.given.Total().Captured - before; n != 2 || !bytes.Equal(pcapng.PacketData(b)[:60], make([]byte, 60)) {
				t.Fatalf("%d longer, round %d: %d packets", longer, round, n)
			}
			if waiting := l.waiting(takes, 1); takes.lost[1].Lost != round+1 || takes.lost[0].Lost != 0 || waiting != 0 {
				t.Fatalf("%d longer, round %d: %+v lost, %d wait", longer, round, takes.lost, waiting)
			}
		}
		l.read(joins, nil, 1<<20)
		got, lost := joins.given, joins.lost
		if got[0].Captured+lost[0].Lost != 400 || got[0].Captured == 0 || got[1].Captured != 0 || lost[1].Lost != 200 || l.lostBy(joins) != lost.Total().Lost {
			t.Errorf("%d longer: who is late got %+v and lost %+v", longer, got, lost)
		}
		add(600, 1, 60)
		var next pcapng.Packet
		if block, err := pcapng.ParseBlock(l.read(takes, nil, 1<<20), false); err != nil || pcapng.ParsePacket(block, 0, &next) != nil || next.Dropped != 200 {
			t.Errorf("%d longer: the next packet is %+v, %v", longer, next, err)
		}
	}
}

// Packets that wait for a client may still arrive, also from a source that was described after the
// client joined.
func TestFeedClientLateSources(t *testing.T) {
	t.Parallel()
	feedTest(t)
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	l := newFeedLog(minLog, 1)
	c := newFeedClient(newFeedConn(here), 1)
	c.feedCursor = l.join()
	l.describe(1, []byte("source 1"))
	block := pcapng.AppendPacket(nil, &pcapng.Packet{Interface: 1, Data: make([]byte, 60)})
	for range 3 {
		l.add(block, []sent{{end: int64(len(block)), source: 1}})
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	arrived, open := c.progress(l)
	if want := []uint64{0, 3}; !slices.Equal(open, want) || arrived.Total() != (capture.Account{}) {
		t.Errorf("%+v have arrived and %v wait, want %v", arrived, open, want)
	}
}

// A client that is too slow loses whole packets, so that its stream stays readable.
func TestFeedLogPCAP(t *testing.T) {
	t.Parallel()
	feedTest(t)
	l := newFeedLog(4096, 1)
	l.asPCAP = true
	c := l.join()
	var packet []byte
	for i := range uint64(200) {
		data := binary.BigEndian.AppendUint64(nil, i)
		packet = pcapng.AppendPacket(packet[:0], &pcapng.Packet{Time: i * 1000, WireLen: 100, Data: data})
		l.add(packet, []sent{{end: int64(len(packet)), bytes: 8}})
	}
	got := l.read(c, nil, 1<<20)
	const size = 16 + 8
	if n := uint64(len(got) / size); n == 0 || n == 200 || len(got)%size != 0 || c.lost.Total().Lost != 200-n {
		t.Fatalf("%d bytes, %+v", len(got), c.lost)
	}
	for i := 200 - uint64(len(got)/size); i < 200; i++ {
		record := got[:size]
		got = got[size:]
		le := binary.LittleEndian
		if le.Uint32(record[4:]) != uint32(i) || le.Uint32(record[8:]) != 8 || le.Uint32(record[12:]) != 100 || binary.BigEndian.Uint64(record[16:]) != i {
			t.Fatalf("packet %d: %x", i, record)
		}
	}
	if rest := l.describeRest(c, nil); len(rest) > 0 {
		t.Errorf("%d bytes at the end", len(rest))
	}
}
