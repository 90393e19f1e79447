package commandline_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// SIGHUP makes a capture with sets on a terminal read their files again, and ends it where the
// terminal was closed: otherwise it would run on where nobody sees it.
func TestTerminalClosedWithSets(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	dir, file := systest.DirectoryFor(t, 0), systest.TempFile(t)
	if err := os.Chmod(dir, 0o755); err != nil { // the capture is another user when it reads the file again
		t.Fatal(err)
	}
	list := filepath.Join(dir, "list")
	testnet.Must(t, os.WriteFile(list, []byte("192.0.2.1\n"), 0o644))
	shown := newTerminal(t)
	pids := filepath.Join(t.TempDir(), "pid")
	wait := shown.run(t, pair.Rx, `echo $$ >`+pids+`; exec "$@"`,
		"-i", "rx0", "-w", file, "--filter-set", "a="+list, "host in @a")
	testnet.WaitFor(t, "the capture", func() bool { return strings.Contains(shown.String(), "listening on") })
	text, err := os.ReadFile(pids)
	testnet.Must(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	testnet.Must(t, err)
	testnet.Must(t, syscall.Kill(pid, syscall.SIGHUP))
	testnet.WaitFor(t, "the file to be read", func() bool { return strings.Contains(shown.String(), "again: 0 added, 0 deleted") })
	testnet.Send(t, pair, testnet.UDPFrame(64, 1))
	testnet.WaitFor(t, "the packet", func() bool { return systest.FileSize(file) > 0 })
	shown.keys.Close()
	wait()
	if records, _ := systest.ReadFile(t, file); len(records) != 1 {
		t.Errorf("%d packets in the file", len(records))
	}
}
