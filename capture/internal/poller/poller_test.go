package poller

import (
	"os"
	"testing"
	"time"
)

// What can be read ends a Wait, and so does Wake, also when it comes before. Each of them ends one
// Wait only.
func TestPoller(t *testing.T) {
	t.Parallel()
	p, err := New()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	for _, fd := range []int{-1, int(r.Fd())} {
		if err := p.Add(fd); err != nil {
			t.Fatal(err)
		}
	}
	const long = time.Hour
	for _, ends := range []func(){p.Wake, func() { w.Write([]byte{1}) }, func() { go p.Wake() }} {
		ends()
		if err := p.Wait(long); err != nil {
			t.Fatal(err)
		}
		before := time.Now()
		if err := p.Wait(20 * time.Millisecond); err != nil || time.Since(before) < 10*time.Millisecond {
			t.Errorf("a second Wait returned after %v: %v", time.Since(before), err)
		}
	}
}
