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
	// pumpHold is how long a pump keeps what it has received: as much later may a packet come from
	// one host than one from another, and still be in its place.
	pumpHold = 500 * time.Millisecond
	// pumpSize is how many bytes a pump keeps at most. Then its host waits, and counts what is
	// lost.
	pumpSize = 32 << 20
)

// A pump receives a live stream while others are read, so that a host which sends nothing does not
// delay the others, and none of them waits for this process. Its methods may be called while it
// runs.
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

// Read returns what has come pumpHold ago. It returns nothing and no error if there is nothing for
// a while.
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

// late reports whether nothing has come that was not read.
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
