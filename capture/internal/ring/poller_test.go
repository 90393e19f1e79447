package ring

import (
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A readable descriptor ends a Wait, and so does Wake, also if called before Wait. Each event ends
// only one Wait.
func TestPoller(t *testing.T) {
	t.Parallel()
	p, err := newPoller()
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

// A signal does not end a Wait.
func TestPollerSignal(t *testing.T) {
	t.Parallel()
	p, err := newPoller()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	thread, stop, stopped := unix.Gettid(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				unix.Tgkill(os.Getpid(), thread, unix.SIGURG)
			}
		}
	}()
	before := time.Now()
	err = p.Wait(50 * time.Millisecond)
	slept := time.Since(before)
	close(stop)
	<-stopped
	if err != nil || slept < 40*time.Millisecond {
		t.Errorf("a Wait beside signals returned after %v: %v", slept, err)
	}
}
