package privileges_test

import (
	"io"
	"os"
	"testing"

	"github.com/xdpcap/xdpcap/internal/cli"
	"github.com/xdpcap/xdpcap/internal/systest"
)

// The test binary itself runs as xdpcap if a test asks for its sandbox.
func TestMain(m *testing.M) {
	if os.Getenv(beOther) != "" {
		io.Copy(io.Discard, os.Stdin)
		return
	}
	if os.Getenv(tryInside) != "" {
		go answerInside()
		os.Exit(cli.Main(os.Args))
	}
	systest.Main(m)
}
