package commandline_test

import (
	"bytes"
	"testing"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A file has the command line in its comment, except with --no-command-line.
func TestNoCommandLine(t *testing.T) {
	t.Parallel()
	testnet.SkipEmulated(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	for _, flag := range []string{"--no-command-line", "--no-command-line=false"} {
		var stdout bytes.Buffer
		cmd := systest.Command("-i", pair.RxName, "-w", "-", "--duration", "1ms", "-q", flag)
		cmd.Stdout = &stdout
		if err := pair.Rx.Start(cmd); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		if has, want := bytes.Contains(stdout.Bytes(), []byte("-w - --duration")), flag != "--no-command-line"; has != want || stdout.Len() == 0 {
			t.Errorf("%s: %d bytes, with the command line: %t", flag, stdout.Len(), has)
		}
	}
}
