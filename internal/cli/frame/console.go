package frame

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"time"
)

// A Console prints to a stream that perhaps nobody reads. It waits a limited time until a text is
// taken. After that it does not wait again until that text has been taken, because a full pipe or a
// stopped terminal must not delay a command or its end. Any goroutine may call Write.
type Console struct {
	out   io.Writer
	limit time.Duration

	mu    sync.Mutex
	taken chan struct{} // closed when the last text has been taken; nil = there was none
}

// NewConsole returns a Console that prints to out, and waits at most two seconds until a text is
// taken.
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
	if c.taken != nil {
		select {
		case <-c.taken:
		default:
			return 0, errUnread
		}
	}
	text, taken := bytes.Clone(b), make(chan struct{})
	c.taken = taken
	var n int
	var err error
	go func() {
		n, err = c.out.Write(text)
		close(taken)
	}()
	select {
	case <-taken:
		return n, err
	case <-time.After(c.limit):
		return 0, errUnread
	}
}
