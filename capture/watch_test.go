package capture

import (
	"errors"
	"testing"

	"github.com/xdpcap/xdpcap/capture/internal/ring"
)

// A hook that is blind at once is an error of Open, which detaches the others.
func TestBlindFromTheBeginning(t *testing.T) {
	t.Parallel()
	seeing := &stillHook{source: Source{Name: "seeing"}}
	_, err := tryStill(t, Options{}, ring.NewLists().New, seeing, &stillHook{source: Source{Name: "blind"}, blind: errors.New("its program has gone")})
	if want := "blind is no longer captured: its program has gone"; !errors.Is(err, ErrBlind) || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if last := seeing.calls[len(seeing.calls)-1]; last != "close" {
		t.Errorf("the last call of the other hook is %s", last)
	}
}

// Close ends the goroutine that checks the hooks.
func TestWatchIsJoined(t *testing.T) {
	t.Parallel()
	s := openStill(t, Options{}, ring.NewLists().New, &stillHook{source: Source{Name: "still"}})
	w := s.watch
	must(t, s.Close())
	select {
	case <-w.Done: // the last that the goroutine does
	default:
		t.Error("it runs on")
	}
}
