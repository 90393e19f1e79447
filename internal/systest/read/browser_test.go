//go:build browser

package read_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/internal/systest"
)

// Chromium shows the page of a file without a word on its console, light, dark and narrow. `make
// test-browser` runs it, and keeps the pictures, which are to be looked at.
func TestReportInBrowser(t *testing.T) {
	dir := os.Getenv("XDPCAP_PICTURES")
	page := filepath.Join(dir, "report.html")
	systest.MustRead(t, "--report", page, "--follow", systest.WriteSample(t, entrySource, exitSource, dropSource).Path)
	for name, flags := range map[string][]string{
		"light":  {"--window-size=1200,5000"},
		"dark":   {"--window-size=1200,5000", "--blink-settings=preferredColorScheme=0"},
		"narrow": {"--window-size=400,7000"},
	} {
		picture := filepath.Join(dir, name+".png")
		cmd := exec.Command("chromium", append([]string{
			"--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir=" + t.TempDir(), "--enable-logging=stderr", "--hide-scrollbars",
			"--screenshot=" + picture, "file://" + page,
		}, flags...)...)
		var said bytes.Buffer
		cmd.Stderr = &said
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v: %s", err, said.String())
		}
		if strings.Contains(said.String(), "CONSOLE") {
			t.Errorf("%s: the browser's console has: %s", name, said.String())
		}
		if systest.FileSize(picture) < 20_000 {
			t.Errorf("%s: the picture has %d bytes", name, systest.FileSize(picture))
		}
	}
}
