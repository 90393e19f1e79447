package capture_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/capture/file"
)

// The lines of a file have the hook of a packet, and of its facts those that the hook knows.
func TestHookInLines(t *testing.T) {
	t.Parallel()
	for hook := capture.XDP; hook < capture.UnknownHook; hook++ {
		var out bytes.Buffer
		w := file.NewWriter(&out, file.Options{Format: file.JSON})
		src := capture.Source{Name: "eth0", Hook: hook}
		w.Begin(capture.Description{Sources: []capture.Source{src}})
		facts := &capture.Facts{WireLen: 60, Queue: 7, Verdict: capture.Drop}
		w.Write([]capture.Packet{{Facts: facts, Data: make([]byte, 60)}})
		w.End(make(capture.Accounts, 1))
		text := out.String()
		for part, want := range map[string]bool{
			`"interface":"eth0"`: true, fmt.Sprintf(`"hook":"%v"`, hook): true, `"verdict":"drop"`: src.HasVerdict(), `"queue":7`: src.HasQueue(),
			`"direction":"out"`: src.HasDirection() && src.Direction() == capture.Out,
		} {
			if strings.Contains(text, part) != want {
				t.Errorf("a line of the hook %v has %s: want %v: %s", hook, part, want, text)
			}
		}
	}
}

// Files begin and end by the host's time, whatever the card's stamps are, and say what they have.
func TestAdapterRotation(t *testing.T) {
	t.Parallel()
	stamps := make([]time.Duration, 300)
	for i := range stamps {
		stamps[i] = time.Duration(i%50)*time.Minute + 1
	}
	const apart = time.Hour / 100
	s, first := capture.StampedSession(t, capture.Options{Stamp: capture.AdapterUnsyncedStamp}, apart, stamps)
	s.Stop()
	dir := t.TempDir()
	var paths []string
	f, err := file.OpenSeries(file.Rotation{
		Period:   time.Hour,
		Origin:   time.Unix(0, first+s.ClockOffset()-int64(apart)/2), // the offset may still change a little
		Path:     func(p file.Place) string { return filepath.Join(dir, p.Began.UTC().Format("150405.000")+".pcapng") },
		Finished: func(path string) { paths = append(paths, path) },
	}, file.Options{})
	must(t, err)
	defer f.Close()
	if _, err := s.Run(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	var counts []int
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		must(t, err)
		all := stampsIn(t, raw)
		for i, at := range all {
			n := len(counts)*100 + i
			if want := first + int64(n)*int64(apart) + capture.Ahead + int64(stamps[n]); at != want {
				t.Errorf("packet %d is stamped %d, want %d", n, at, want)
			}
		}
		counts = append(counts, len(all))
		for _, want := range []string{
			"eth9: the card was asked for timestamp\n",
			"time stamps: adapter_unsynced; packets without a stamp from the card have the host's; packets are in the order of the host's stamps, so stamps may step back\n",
		} {
			if !bytes.Contains(raw, []byte(want)) {
				t.Errorf("%s does not say %q", path, want)
			}
		}
	}
	same(t, []int{100, 100, 100}, counts, "packets of the files")
}
