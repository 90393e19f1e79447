package cli

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// Text that has a meaning in roff is shown unchanged.
func TestRoff(t *testing.T) {
	t.Parallel()
	var r roff
	r.macro("TH", "X", "8")
	r.macro("SH", "X")
	lines := []string{`.dot \n(xx "quoted" it's a --flag`, "'apostrophe ~ ^ `accents`"}
	for _, line := range lines {
		r.line(line)
		r.macro("PP")
	}
	shown, warnings := formatted(t, r.Bytes())
	for _, line := range lines {
		if !strings.Contains(shown, line) {
			t.Errorf("no %q in %s%s", line, shown, warnings)
		}
	}
}

// formatted returns a manual page as a terminal shows it, and the warnings of groff.
func formatted(t *testing.T, text []byte) (shown, warnings string) {
	t.Helper()
	testnet.Require(t, "groff")
	var out, errs bytes.Buffer
	cmd := exec.Command("groff", "-man", "-Tascii", "-ww", "-P-cbou", "-rLL=100n")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(text), &out, &errs
	testnet.Must(t, cmd.Run())
	return out.String(), errs.String()
}
