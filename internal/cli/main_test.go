package cli

import (
	"os"
	"testing"

	"github.com/xdpcap/xdpcap/internal/cli/config"
)

// The tests do not read the settings of this machine.
func TestMain(m *testing.M) {
	os.Setenv(config.FileVariable, os.DevNull)
	os.Exit(m.Run())
}
