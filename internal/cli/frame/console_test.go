package frame

import (
	"io"
	"testing"
	"time"
)

// A Console waits for its reader once, and prints again when there is one.
func TestConsole(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe()
	c := &Console{out: w, limit: time.Millisecond}
	if _, err := c.Write([]byte("one\n")); err == nil {
		t.Error("printed with nobody reading")
	}
	c.limit = time.Hour // would hang the test if it were waited for
	if _, err := c.Write([]byte("two\n")); err == nil {
		t.Error("printed behind what nobody has read")
	}
	got := make([]byte, 8)
	if n, err := r.Read(got); err != nil || string(got[:n]) != "one\n" {
		t.Errorf("read %q, %v", got[:n], err)
	}
	printed := make(chan error)
	go func() {
		for { // until the first write has returned
			if _, err := c.Write([]byte("three\n")); err == nil {
				close(printed)
				return
			}
		}
	}()
	if n, err := r.Read(got); err != nil || string(got[:n]) != "three\n" {
		t.Errorf("read %q, %v", got[:n], err)
	}
	<-printed
}
