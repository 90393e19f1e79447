package testfile

import (
	"bytes"
	"os/exec"
	"testing"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// Formatted is a manual page as a terminal shows it, and the warnings of groff.
func Formatted(t *testing.T, text []byte) (shown, warnings string) {
	t.Helper()
	testnet.Require(t, "groff")
	var out, errs bytes.Buffer
	cmd := exec.Command("groff", "-man", "-Tascii", "-ww", "-P-cbou", "-rLL=100n")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(text), &out, &errs
	testnet.Must(t, cmd.Run())
	return out.String(), errs.String()
}
