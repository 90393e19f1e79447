package capture_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// Control characters in a name from outside never reach the terminal: they would change what else
// it shows.
func TestNamesAreEscaped(t *testing.T) {
	t.Parallel()
	testnet.SkipEmulated(t)
	const name, escaped = "\x1b[31mred0", `\x1b[31mred0`
	pair := testnet.MustPair(t, testnet.PairOptions{})
	systest.AddPair(t, pair, name, 1, 1)
	file := filepath.Join(t.TempDir(), "\x1b[2Ja\nb.pcapng")
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"interfaces"}, escaped},
		{[]string{"probe", "-i", name}, "interface " + escaped},
		{[]string{"stats", "-i", name, "--count", "1", "--interval", "20ms"}, "listening on " + escaped},
		{[]string{"monitor", "-i", name, "--count", "1", "--interval", "20ms"}, "xdp tracepoints of " + escaped},
		{[]string{"drops", "-i", name, "--count", "1", "--interval", "20ms"}, "packets lost at " + escaped},
		{[]string{"-i", name, "--duration", "20ms", "-w", file}, "listening on " + escaped},
		{[]string{"-i", "nosuch"}, "there are: "},
		{[]string{"-i", "\x1b[1m"}, `interface "\x1b[1m" does not exist`},
		{[]string{"-i", name, "-w", file + "/x"}, `\x1b[2Ja\nb.pcapng/x: not a directory`},
		{[]string{"-F", file + "/x"}, `\x1b[2Ja\nb.pcapng/x: not a directory`},
		{[]string{"-i", name, "-c", "\x1b[1m"}, `-c \x1b[1m: must be a positive whole number`},
		{[]string{"-i", name, "--\x1b[1m"}, `unknown flag: --\x1b[1m`},
		{[]string{"-i", name, "tcp", "\x1b[1m"}, "^"},
	} {
		var out bytes.Buffer
		cmd := systest.Command(test.args...)
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := pair.Rx.Start(cmd); err != nil {
			t.Fatal(err)
		}
		cmd.Wait()
		if strings.Contains(out.String(), "\x1b") || !strings.Contains(out.String(), test.want) {
			t.Errorf("%q prints %q, want %q in it and no escape character", test.args, out.String(), test.want)
		}
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}
