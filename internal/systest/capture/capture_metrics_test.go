package capture_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// With --account packets are counted as they are with a file, and nothing is printed or written.
func TestAccountOnly(t *testing.T) {
	t.Parallel()
	testnet.SkipEmulated(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	stdout, err := os.Create(systest.TempFile(t))
	if err != nil {
		t.Fatal(err)
	}
	defer stdout.Close()
	p := systest.Listening(t, pair.Rx, stdout, "-i", "rx0", "--account", "--listen", "127.0.0.1:0", "--json")
	const frames = 20
	for seq := range uint64(frames) {
		testnet.Send(t, pair, testnet.UDPFrame(100, seq))
	}
	want := fmt.Sprintf("xdpcap_captured_bytes_total{hook=\"xdp\",interface=\"rx0\",program=\"\",program_id=\"\"} %d\n", 100*frames)
	testnet.WaitFor(t, "the last packet in the metrics", func() bool { return strings.Contains(systest.Scrape(t, pair, systest.MetricsURL(t, p)), want) })
	got := systest.Account(t, p.Interrupt()).AccountKeys
	if diff := cmp.Diff(systest.AccountKeys{Seen: frames, Captured: frames, Bytes: 100 * frames}, got); diff != "" {
		t.Error(diff)
	}
	if info, err := stdout.Stat(); err != nil || info.Size() != 0 {
		t.Error(info.Size(), "bytes on standard output", err)
	}
}

// The files that a ring has removed no longer count in the metric of their size.
func TestFileMetricOfRing(t *testing.T) {
	t.Parallel()
	testnet.SkipEmulated(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	dir := t.TempDir()
	p := systest.Listening(t, pair.Rx, nil, "-i", "rx0", "-U", "-b", "packets:10", "-b", "files:2", "-w", filepath.Join(dir, "out.pcapng"), "--listen", "127.0.0.1:0")
	for seq := range uint64(100) {
		testnet.Send(t, pair, testnet.UDPFrame(100, seq))
	}
	testnet.WaitFor(t, "the size of the two files that are left", func() bool {
		left, err := filepath.Glob(filepath.Join(dir, "out_0*"))
		if err != nil {
			t.Fatal(err)
		}
		size := int64(0)
		for _, path := range left {
			if info, err := os.Stat(path); err == nil {
				size += info.Size()
			}
		}
		text := systest.Scrape(t, pair, systest.MetricsURL(t, p))
		return strings.Contains(text, "} 100\n") && len(left) == 2 && strings.Contains(text, fmt.Sprintf("xdpcap_output_file_bytes %d\n", size))
	})
	p.Interrupt()
}
