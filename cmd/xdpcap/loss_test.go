package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// The flags that help are named with what they would change by the figures of the loss.
func TestLossRemedy(t *testing.T) {
	for _, test := range []struct {
		name     string
		loss     capture.Loss
		options  capture.Options
		printing bool
		want     string
	}{
		{"burst", capture.Loss{Size: 1500, Enough: 4 << 20}, capture.Options{Sample: 1}, false,
			"-B 4M (holds such a burst), -s 128 (at most 9 % of the bytes)"},
		{"burst of short packets", capture.Loss{Size: 64, Enough: 512 << 10}, capture.Options{Sample: 1}, true,
			"-B 512k (holds such a burst)"},
		{"burst without memory for it", capture.Loss{Size: 64}, capture.Options{Sample: 1}, false,
			"a filter or --sample (fewer packets)"},
		{"small rings", capture.Loss{Cause: capture.SmallRings, Size: 100, Enough: 16 << 20}, capture.Options{Sample: 1}, false,
			"-B 16M (holds 20ms of it)"},
		{"reader", capture.Loss{Cause: capture.SlowReader, Size: 64, Room: 0.6}, capture.Options{Sample: 1}, true,
			"--sample 2 (as many packets as find room now), --transport ring (less work for each packet)"},
		{"sampling already", capture.Loss{Cause: capture.SlowReader, Size: 256, Room: 0.25}, capture.Options{Sample: 10}, false,
			"-s 128 (at most 51 % of the bytes), --sample 40 (as many packets as find room now), --transport ring (less work for each packet)"},
		{"reader of a ring", capture.Loss{Cause: capture.SlowReader, Size: 64, Room: 0.6},
			capture.Options{Sample: 1, Transport: capture.TransportRing}, false,
			"--sample 2 (as many packets as find room now)"},
		{"file", capture.Loss{Cause: capture.SlowOutput, Size: 300, Room: 0.5}, capture.Options{Sample: 1}, false,
			"-s 128 (at most 43 % of the bytes), --sample 2 (as many packets as find room now)"},
		{"printing", capture.Loss{Cause: capture.SlowOutput, Size: 64, Room: 0.01}, capture.Options{Sample: 1}, true,
			"-w FILE without printing (less work), --sample 100 (as many packets as find room now)"},
		{"nothing finds room", capture.Loss{Cause: capture.SlowOutput}, capture.Options{Sample: 1}, false,
			"a filter or --sample (fewer packets)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := lossRemedy(&test.loss, test.options, test.printing)
			if diff := cmp.Diff("what helps: "+test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

var lossLine = regexp.MustCompile(`(?m)^xdpcap: rx0: \d+ of \d+ packets lost within .*$`)

// The first loss is said while the capture runs, once, and is among the notices of --json.
func TestLossIsSaid(t *testing.T) {
	skipEmulated(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	flood := testnet.GeneratorOptions{Frame: testnet.UDPFrame(1000, 0), Count: 400_000, Rate: 200_000}

	// A process that was stopped for a moment takes its time to read what came meanwhile, and no
	// more is lost then.
	p := listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", os.DevNull, "-B", "256k", "--json")
	stopProcess(t, p)
	testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: flood.Frame, Count: 1000})
	continueProcess(t, p)
	said := waitForLoss(t, p)
	if !regexp.MustCompile(` of 1000 bytes on average: more came at once than a ring of 256 KiB holds; ` +
		`what helps: -B (1|2)M \(holds such a burst\), -s 128 \(at most 13 % of the bytes\)$`).MatchString(said) {
		t.Errorf("said: %s", said)
	}
	s := account(t, p.interrupt())
	if diff := cmp.Diff([]string{strings.TrimPrefix(said, "xdpcap: ")}, s.Notices); diff != "" {
		t.Errorf("notices: %s", diff)
	}

	// Standard output takes fewer lines than the generator sends packets.
	lines, hurry := slowReader(t)
	p = listening(t, pair.Rx, lines, "-i", pair.RxName, "-v")
	begun := time.Now()
	testnet.Generate(t, pair, flood)
	said = waitForLoss(t, p)
	hurry()
	t.Logf("%v after the beginning: %s", time.Since(begun), said)
	if !regexp.MustCompile(`: the output is busy all the time, and \d+ % of them find room; what helps: ` +
		`-w FILE without printing \(less work\), -s 128 .*, --sample \d+ \(as many packets as find room now\)$`).MatchString(said) {
		t.Errorf("said: %s", said)
	}
	if n := len(lossLine.FindAllString(p.interrupt(), -1)); n != 1 {
		t.Errorf("said %d times", n)
	}
}

// slowReader returns a pipe out of which some 40,000 lines per second are read, and, once hurry is
// called, all of them at once.
func slowReader(t *testing.T) (w *os.File, hurry func()) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
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

// waitForLoss returns the line that says that packets are lost.
func waitForLoss(t *testing.T, p *process) (line string) {
	t.Helper()
	testnet.WaitFor(t, "a loss to be said", func() bool {
		line = lossLine.FindString(p.said())
		return line != ""
	})
	return line
}
