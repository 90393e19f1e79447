package frame

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"time"
)

// A Console prints to a stream whose reader may have stopped. Write waits at most limit until a
// text is written. While that text is pending, later texts are discarded without a wait, because a
// full pipe or a stopped terminal must not delay a command or its end. Any goroutine may call
// Write.
type Console struct {
	out   io.Writer
	limit time.Duration

	mu      sync.Mutex
	written chan struct{} // closed when the last text has been written; nil = there was none
}

// NewConsole returns a Console that prints to out, with a limit of two seconds.
func NewConsole(out io.Writer) *Console { return &Console{out: out, limit: 2 * time.Second} }

// File is the file that the Console prints to; nil = it prints to something else.
func (c *Console) File() *os.File {
	f, _ := c.out.(*os.File)
	return f
}

var errUnread = errors.New("nobody reads it")

// Write prints a text, or discards it with an error.
func (c *Console) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.written != nil {
		select {
		case <-c.written:
		default:
			return 0, errUnread
		}
	}
	text, written := bytes.Clone(b), make(chan struct{})
	c.written = written
	var n int
	var err error
	go func() {
		n, err = c.out.Write(text)
		close(written)
	}()
	select {
	case <-written:
		return n, err
	case <-time.After(c.limit):
		return 0, errUnread
	}
}
