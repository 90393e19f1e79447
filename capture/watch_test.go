package capture

import (
	"errors"
	"testing"
	"time"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

func openStill(t *testing.T, hooks ...hook) (*Session, error) {
	t.Helper()
	testnet.RequireRoot(t)
	o, err := Options{Interfaces: []string{"unused"}}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	return open(o, hooks, listed())
}

// A hook that is blind at once is an error of Open, which detaches the others.
func TestBlindFromTheBeginning(t *testing.T) {
	seeing := &stillHook{source: Source{Name: "seeing"}}
	_, err := openStill(t, seeing, &stillHook{source: Source{Name: "blind"}, blind: errors.New("its program has gone")})
	if want := "blind is no longer captured: its program has gone"; !errors.Is(err, ErrBlind) || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if last := seeing.calls[len(seeing.calls)-1]; last != "close" {
		t.Errorf("the last call of the other hook is %s", last)
	}
}

// Close ends the goroutine that checks the hooks.
func TestWatchIsJoined(t *testing.T) {
	s, err := openStill(t, &stillHook{source: Source{Name: "still"}})
	if err != nil {
		t.Fatal(err)
	}
	w := s.watch
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	select {
	case <-w.done: // the last that the goroutine does
	default:
		t.Error("it runs on")
	}
}

// close returns only when the goroutine has ended.
func TestWatchWaits(t *testing.T) {
	w := &watch{quit: make(chan struct{}), done: make(chan struct{})}
	returned := make(chan struct{})
	go func() {
		w.close()
		close(returned)
	}()
	<-w.quit
	select {
	case <-returned:
		t.Error("it does not wait")
	case <-time.After(20 * time.Millisecond):
	}
	close(w.done)
	<-returned
}
