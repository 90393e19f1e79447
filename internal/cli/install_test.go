package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/xdpcap/xdpcap/internal/cli/config"
	"github.com/xdpcap/xdpcap/internal/settings"
	"github.com/xdpcap/xdpcap/internal/testdoc"
)

// The flags of the capture accept the values in the example of the service's settings.
func TestExampleSettings(t *testing.T) {
	text := testdoc.Read(t, "packaging/xdpcap.conf.example")
	file := filepath.Join(t.TempDir(), "eth0.conf")
	for _, text := range []string{text, regexp.MustCompile(`(?m)^#(\w\S+ = )`).ReplaceAllString(text, "$1")} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv(settings.FileVariable, file)
		all, _, err := settings.Files{}.Read(config.Settable(NewRoot()))
		if err != nil || len(all) < 4 {
			t.Error(all, err)
		}
	}
}
