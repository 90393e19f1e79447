package testnet

import (
	"io"
	"strings"
	"sync"
)

// Output keeps what a process prints, and closes Found when the awaited words have appeared. Its
// methods may be called concurrently.
type Output struct {
	Found chan struct{}

	awaited string
	copies  io.Writer // gets a copy

	mu    sync.Mutex
	text  strings.Builder
	found sync.Once
}

// NewOutput makes an Output that also copies what it keeps; to may be io.Discard.
func NewOutput(awaited string, to io.Writer) *Output {
	return &Output{Found: make(chan struct{}), awaited: awaited, copies: to}
}

func (o *Output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.Write(b)
	if strings.Contains(o.text.String(), o.awaited) {
		o.found.Do(func() { close(o.Found) })
	}
	return o.copies.Write(b)
}

// Text returns what was printed so far.
func (o *Output) Text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
