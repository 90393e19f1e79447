package files_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// Several -w get the same packets. A packet that one of them does not take is missing only there.
func TestSeveralFiles(t *testing.T) {
	t.Parallel()
	testnet.SkipEmulated(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	dir := t.TempDir()
	one, two, three := filepath.Join(dir, "1.pcapng"), filepath.Join(dir, "2.pcapng"), filepath.Join(dir, "3.pcapng")
	stdout, err := os.Create(three)
	if err != nil {
		t.Fatal(err)
	}
	p := systest.Listening(t, pair.Rx, stdout, "-i", pair.RxName, "-w", one, "-w", two, "-w", "-", "--json")
	stdout.Close()
	_, arrived := testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(64, 0), Count: 300, Rate: 10_000})
	s := systest.Account(t, p.Interrupt())
	if len(s.Outputs) != 3 || s.Captured != arrived {
		t.Fatalf("summary %+v", s)
	}
	for i, path := range []string{one, two, three} {
		records, _ := systest.ReadFile(t, path)
		name := path
		if path == three {
			name = "-"
		}
		if want := (systest.OutputSummary{Output: name, Captured: arrived, Bytes: 64 * arrived}); uint64(len(records)) != arrived || s.Outputs[i] != want {
			t.Errorf("%d packets in %s, summary %+v, want %+v", len(records), path, s.Outputs[i], want)
		}
	}

	_, stderr := systest.Start(t, pair.Rx, nil, "-i", pair.RxName, "-w", one, "-w", "/dev/full").Wait()
	for _, want := range []string{"write packets to /dev/full: no space left on device\n", "0 packets captured\n", one + ": 0 packets captured, 0 not taken\n", "/dev/full: 0 packets captured, 0 not taken\n"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("no %q in %s", want, stderr)
		}
	}
}
