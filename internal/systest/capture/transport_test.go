package capture_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// For every value of --transport, packets come, and the messages, the object of --json and the file
// say which transport was used.
func TestTransportFlag(t *testing.T) {
	t.Parallel()
	testnet.SkipEmulated(t)
	for flag, want := range map[string]string{"perf": "perf", "ring": "ring", "auto": "ring"} {
		t.Run(flag, func(t *testing.T) {
			pair := testnet.MustPair(t, testnet.PairOptions{})
			file, summary := systest.TempFile(t), filepath.Join(t.TempDir(), "summary.json")
			p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", file, "--json="+summary, "-v", "--transport", flag)
			testnet.Send(t, pair, testnet.UDPFrame(60, 1))
			said := p.Interrupt()
			if line := "xdpcap: transport " + want + ", 8192 KiB for each CPU\n"; !strings.Contains(said, line) {
				t.Errorf("%s does not say %s", said, line)
			}
			object, err := os.ReadFile(summary)
			if err != nil {
				t.Fatal(err)
			}
			if s := systest.Account(t, string(object)); s.Transport != want || s.Captured != 1 {
				t.Errorf("the object is %+v", s)
			}
			_, r := systest.ReadFile(t, file)
			if comment := r.SectionInfo().Comment; !strings.Contains(comment, "transport: "+want+", 8 MiB for each CPU\n") {
				t.Errorf("the file's comment is %s", comment)
			}
		})
	}
}
