package frame

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"time"
)

// Stderr is where every command prints what is not its output.
var Stderr = NewConsole(os.Stderr)

// A Console prints to a stream that perhaps nobody reads. It waits a limited time for a text to be
// taken, and then not again until it has been, because a pipe that is full or a terminal that is
// stopped must not keep a command from its work or its end. Any goroutine may call Write.
type Console struct {
	out   io.Writer
	limit time.Duration

	mu    sync.Mutex
	taken chan struct{} // closed when the last text has been taken; nil = there was none
}

// NewConsole prints to out, and waits for two seconds at most until a text is taken.
func NewConsole(out io.Writer) *Console { return &Console{out: out, limit: 2 * time.Second} }

var errUnread = errors.New("nobody reads it")

// Write prints a text, or gives it up with an error.
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
