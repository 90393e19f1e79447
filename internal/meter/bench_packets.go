package meter

import (
	"encoding/binary"
	"sync"
)

// benchPackets are the most common kinds of packets, in the shortest frames: at a given bandwidth,
// short frames are the most packets to count.
var benchPackets = []struct {
	class Class
	data  []byte
}{
	{IPv4(6), benchPacket(0x0800, 6)},
	{IPv4(17), benchPacket(0x0800, 17)},
	{IPv6(6), benchPacket(0x86dd, 6)},
	{IPv6(17), benchPacket(0x86dd, 17)},
}

// benchPacket makes a packet. All bytes are zero except those that the counters read.
func benchPacket(etherType uint16, protocol byte) []byte {
	if etherType == 0x0800 {
		p := make([]byte, 60)
		binary.BigEndian.PutUint16(p[12:], etherType)
		p[14], p[14+9] = 0x45, protocol
		return p
	}
	p := make([]byte, 14+40+20)
	binary.BigEndian.PutUint16(p[12:], etherType)
	p[14], p[14+6] = 0x60, protocol
	return p
}

// A barrier makes n threads wait for each other, any number of times.
type barrier struct {
	mu        sync.Mutex
	changed   *sync.Cond
	n         int
	waiting   int
	round     int
	cancelled bool
}

func newBarrier(n int) *barrier {
	b := &barrier{n: n}
	b.changed = sync.NewCond(&b.mu)
	return b
}

// wait returns once all n threads have called it, or after cancel.
func (b *barrier) wait() {
	b.mu.Lock()
	defer b.mu.Unlock()
	round := b.round
	if b.waiting++; b.waiting == b.n {
		b.waiting = 0
		b.round++
		b.changed.Broadcast()
	}
	for round == b.round && !b.cancelled {
		b.changed.Wait()
	}
}

// cancel releases all threads, because one of them failed and will not wait any more.
func (b *barrier) cancel() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cancelled = true
	b.changed.Broadcast()
}
