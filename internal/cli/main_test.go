package cli

import (
	"os"
	"testing"

	"github.com/xdpcap/xdpcap/internal/settings"
)

// The tests do not read the settings of this machine.
func TestMain(m *testing.M) {
	os.Setenv(settings.FileVariable, os.DevNull)
	os.Exit(m.Run())
}
