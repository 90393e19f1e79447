package surroundings_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testfile"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// runRecipe runs the commands of a block in docs/reading.md, in a directory with out.pcapng.
func runRecipe(t *testing.T, first, file string) string {
	t.Helper()
	dir := t.TempDir()
	for from, to := range map[string]string{file: "out.pcapng", os.Getenv("XDPCAP"): "xdpcap"} {
		testnet.Must(t, os.Symlink(from, filepath.Join(dir, to)))
	}
	cmd := exec.Command("bash", "-e", "-o", "pipefail", "-c", testfile.Block(t, "docs/reading.md", first))
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, said.String())
	}
	return string(out)
}

// SQL gets the packets and bytes of each pair of addresses, as --stats counts them.
func TestRecipeOfSQL(t *testing.T) {
	t.Parallel()
	testnet.Require(t, "sqlite3")
	file := systest.WriteSample(t, capture.Source{Name: `eth0, "quoted"`}).Path
	got := runRecipe(t, "xdpcap read --format csv out.pcapng", file)
	sums := make(map[string][2]uint64)
	for _, f := range systest.StatsOf(t, file).Flows {
		s := sums[f.Source+"|"+f.Destination]
		sums[f.Source+"|"+f.Destination] = [2]uint64{s[0] + f.Packets, s[1] + f.Bytes}
	}
	lines := strings.Split(strings.TrimSpace(got), "\n")
	found := 0
	for _, line := range lines[1:] {
		for pair, s := range sums {
			if line == fmt.Sprintf("%s|%d|%d", pair, s[0], s[1]) {
				found++
			}
		}
	}
	if lines[0] != "source|destination|packets|bytes" || found < 3 {
		t.Errorf("%d of %v are in %s", found, sums, got)
	}
}

// jq counts the packets of each second.
func TestRecipeOfJQ(t *testing.T) {
	t.Parallel()
	testnet.Require(t, "jq")
	file := systest.WriteSample(t, systest.PlainSource).Path
	want := fmt.Sprintf("2023-11-14T22:13:20 %d\n", systest.StatsOf(t, file).Total.Packets)
	if got := runRecipe(t, "xdpcap read --format json out.pcapng |\n", file); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Prometheus accepts the configuration in docs/metrics.md, with the rules of contrib/.
func TestScrapeConfig(t *testing.T) {
	t.Parallel()
	testnet.Require(t, "promtool")
	dir := t.TempDir()
	rules, config := filepath.Join(dir, "rules.yml"), filepath.Join(dir, "prometheus.yml")
	text := testfile.Block(t, "docs/metrics.md", "scrape_configs:")
	for path, content := range map[string]string{
		rules:  testfile.Read(t, "contrib/prometheus-xdpcap.rules.yml"),
		config: strings.Replace(text, "/etc/prometheus/prometheus-xdpcap.rules.yml", rules, 1),
	} {
		testnet.Must(t, os.WriteFile(path, []byte(content), 0o600))
	}
	out, err := exec.Command("promtool", "check", "config", config).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "1 rule files found") {
		t.Errorf("%v: %s", err, out)
	}
}
