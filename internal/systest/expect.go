package systest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// CheckRefused starts xdpcap with command lines that it must refuse, in the receiving namespace of
// a pair. Each error must be one line with the given words; a dot between words matches any words.
// No program may stay attached.
func CheckRefused(t *testing.T, pair *testnet.Pair, all map[string]string) {
	t.Helper()
	t.Run("refused", func(t *testing.T) {
		for args, words := range all {
			t.Run(args, func(t *testing.T) {
				t.Parallel()
				status, stderr := Start(t, pair.Rx, nil, strings.Fields(args)...).Wait()
				OneLine(t, status, stderr, strings.Split(words, " ... ")...)
			})
		}
	})
	CheckDetached(t, pair)
}

// Objects decodes the lines of a text that are JSON, and rejects unknown keys.
func Objects[T any](t *testing.T, text string) (all []T) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	for d.DisallowUnknownFields(); d.More(); {
		var one T
		if err := d.Decode(&one); err != nil {
			t.Fatalf("object %d of %s: %v", len(all), text, err)
		}
		all = append(all, one)
	}
	return all
}

// WaitStderr waits until a process has printed these words on stderr.
func WaitStderr(t *testing.T, p *Process, words string) {
	t.Helper()
	testnet.WaitFor(t, "the words "+words, func() bool { return strings.Contains(p.Stderr(), words) })
}

// WaitMetric waits until the metrics of a process have a line that begins with these words.
func WaitMetric(t *testing.T, pair *testnet.Pair, p *Process, words string) {
	t.Helper()
	url := MetricsURL(t, p)
	testnet.WaitFor(t, words, func() bool { return strings.Contains("\n"+Scrape(t, pair, url), "\n"+words) })
}

// SendNumbered sends frames of a size one after the other, each after the previous one has arrived.
func SendNumbered(t *testing.T, pair *testnet.Pair, frames uint64, size int) {
	t.Helper()
	for seq := range frames {
		testnet.Send(t, pair, testnet.UDPFrame(size, seq))
	}
}
