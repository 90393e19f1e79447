package cli

import (
	"os"
	"testing"
)

// The tests do not read the settings of this machine.
func TestMain(m *testing.M) {
	os.Setenv(SettingsVariable, os.DevNull)
	os.Exit(m.Run())
}
