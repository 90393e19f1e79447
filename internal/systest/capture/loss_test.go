package capture_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

var lossLine = regexp.MustCompile(`(?m)^xdpcap: rx0: \d+ of \d+ packets lost within .*$`)

// The first loss is reported while the capture runs, once, and is among the notices of --json.
func TestLossIsSaid(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})

	// A process that was stopped for a moment needs time to read the packets in the rings; after
	// that, no more packets are lost.
	p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", os.DevNull, "-B", "256k", "--json")
	systest.StopProcess(t, p)
	testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(1000, 0), Count: 1000})
	systest.ContinueProcess(t, p)
	said := waitForLoss(t, p)
	if !regexp.MustCompile(` of 1000 bytes on average: more came at once than a ring of 256 KiB holds; ` +
		`what helps: -B (1|2)M \(holds such a burst\), -s 128 \(at most 13 % of the bytes\)$`).MatchString(said) {
		t.Errorf("said: %s", said)
	}
	s := systest.Account(t, p.Interrupt())
	if diff := cmp.Diff([]string{strings.TrimPrefix(said, "xdpcap: ")}, s.Notices); diff != "" {
		t.Errorf("notices: %s", diff)
	}

	// Standard output accepts fewer lines than the generator sends packets.
	lines, hurry := slowReader(t)
	p = systest.Listening(t, pair.Rx, lines, "-i", pair.RxName, "-v")
	begun := time.Now()
	// The cause is measured after the first loss, and until then packets must arrive.
	stop := flood(t, testnet.MustGenerator(t, pair), testnet.GeneratorOptions{Frame: testnet.UDPFrame(1000, 0), Rate: 200_000})
	said = waitForLoss(t, p)
	stop()
	hurry()
	t.Logf("%v after the beginning: %s", time.Since(begun), said)
	if !regexp.MustCompile(`: the output is always busy, and only \d+ % of packets find room; what helps: ` +
		`-w out.pcapng instead of printing \(less work\), -s 128 .*, --sample \d+ \(as many packets as find room now\)$`).MatchString(said) {
		t.Errorf("said: %s", said)
	}
	if n := len(lossLine.FindAllString(p.Interrupt(), -1)); n != 1 {
		t.Errorf("said %d times", n)
	}
}

// slowReader returns a pipe from which about 40,000 lines per second are read. After hurry is
// called, they are read at full speed.
func slowReader(t *testing.T) (w *os.File, hurry func()) {
	t.Helper()
	r, w, err := os.Pipe()
	testnet.Must(t, err)
	hurried := make(chan struct{})
	go func() {
		defer r.Close()
		for buf := make([]byte, 1<<16); ; {
			if _, err := r.Read(buf); err != nil {
				return
			}
			select {
			case <-hurried:
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	t.Cleanup(func() { w.Close() })
	return w, func() { close(hurried) }
}

// waitForLoss returns the line that reports lost packets.
func waitForLoss(t *testing.T, p *systest.Process) (line string) {
	t.Helper()
	testnet.WaitFor(t, "a loss to be said", func() bool {
		line = lossLine.FindString(p.Stderr())
		return line != ""
	})
	return line
}
