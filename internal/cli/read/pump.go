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
	// pumpHold is how long a pump keeps what it has received before Read returns it. Packets of one
	// host may arrive later than those of another by as much, and are still read in order of time.
	pumpHold = 500 * time.Millisecond
	// pumpSize is the most bytes that a pump keeps. Then it stops receiving, so that the sending
	// host has to wait: what this host must drop, it counts as lost.
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
	room   sync.Cond
	chunks []chunk
	size   int
	err    error // after the chunks; nil = there may be more
	polled bool  // by late, so Read need not wait
	closed bool
}

// A chunk are bytes that came at one time.
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

// run ends when the connection does, or is closed.
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

// Read returns what came at least pumpHold ago, or earlier if the pump is half full. If there is
// nothing yet, it waits for a short time, and returns 0 bytes without an error.
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
	if len(p.chunks) == 0 || wait > 0 && p.err == nil && p.size < pumpSize/2 {
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

// late reports whether all that has come was read, and the stream has not ended.
func (p *pump) late() bool {
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

// received returns a copy of all that has come and was not read.
func (p *pump) received() io.Reader {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all bytes.Buffer
	for _, c := range p.chunks {
		all.Write(c.data)
	}
	return &all
}
