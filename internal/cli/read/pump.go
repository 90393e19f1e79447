package read

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync"
	"time"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
)

const (
	// pumpHold is the time between the arrival of bytes and their Read. Packets of one host may
	// arrive later than those of another by as much, and are still read in order of time.
	pumpHold = 500 * time.Millisecond
	// pumpSize is the most bytes that a pump keeps. Then it stops receiving, so that the sending
	// host has to wait, and counts packets that it must drop as lost.
	pumpSize = 32 << 20
)

// A pump receives a live stream of one host in a goroutine of its own. So a host that sends nothing
// does not delay the streams of others, and no host waits while another's stream is read. Its
// methods may be called while it runs.
type pump struct {
	conn  net.Conn
	ctx   context.Context
	ended func(error) // called when the stream has ended: with io.EOF, or why

	mu     sync.Mutex
	room   sync.Cond // signalled when size falls, or on Close
	chunks []chunk   // received and not read yet
	size   int       // bytes in chunks
	err    error     // after the chunks; nil = there may be more
	polled bool      // isIdle was called, so Read need not wait: its caller polls several streams
	closed bool
}

// A chunk has bytes that came at one time.
type chunk struct {
	data []byte
	at   time.Time
}

func newPump(ctx context.Context, conn net.Conn, ended func(error)) *pump {
	p := &pump{conn: conn, ctx: ctx, ended: ended}
	p.room.L = &p.mu
	go p.run()
	return p
}

// run receives until the connection ends or is closed.
func (p *pump) run() {
	buf := make([]byte, 64<<10)
	for {
		n, err := p.conn.Read(buf)
		p.mu.Lock()
		if n > 0 {
			p.chunks = append(p.chunks, chunk{bytes.Clone(buf[:n]), time.Now()})
			p.size += n
		}
		p.err = err
		for p.size >= pumpSize && err == nil && !p.closed {
			p.room.Wait()
		}
		closed := p.closed
		p.mu.Unlock()
		if err != nil || closed {
			if !closed {
				p.ended(err)
			}
			return
		}
	}
}

// Read returns bytes that came at least pumpHold ago, or earlier if the pump is half full. If there
// are none, it waits for at most frame.WaitInterval, and returns 0 without an error.
func (p *pump) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.ctx.Err() != nil:
		return 0, p.ctx.Err()
	case len(p.chunks) == 0 && (p.err != nil || p.polled):
		return 0, p.err
	}
	wait := frame.WaitInterval
	if len(p.chunks) > 0 {
		wait = min(wait, time.Until(p.chunks[0].at.Add(pumpHold)))
	}
	isHeld := wait > 0 && p.err == nil && p.size < pumpSize/2
	if len(p.chunks) == 0 || isHeld {
		p.mu.Unlock()
		time.Sleep(wait)
		p.mu.Lock()
		return 0, nil
	}
	first := &p.chunks[0]
	n := copy(b, first.data)
	if first.data = first.data[n:]; len(first.data) == 0 {
		p.chunks = p.chunks[1:]
	}
	p.size -= n
	p.room.Signal()
	return n, nil
}

// isIdle reports whether all received bytes were read, and the stream has not ended. From the first
// call on, Read returns at once if there are no bytes: its caller has other streams to read.
func (p *pump) isIdle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.polled = true
	return len(p.chunks) == 0 && p.err == nil
}

// Close ends the connection.
func (p *pump) Close() error {
	p.mu.Lock()
	p.closed = true
	p.room.Signal()
	p.mu.Unlock()
	return p.conn.Close()
}

// received returns a copy of all bytes that were received and not read.
func (p *pump) received() io.Reader {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all bytes.Buffer
	for _, c := range p.chunks {
		all.Write(c.data)
	}
	return &all
}
