package surroundings_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testfile"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// The commands, tables and queries of docs/fleet.md work, from three hosts to two ClickHouse
// servers: each sample is a row, and the rows add up to the account of each xdpcap.
func TestFleet(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	for _, tool := range []string{"jq", "clickhouse-server", "clickhouse-client"} {
		testnet.Require(t, tool)
	}
	if testing.Short() {
		t.Skip("runs two ClickHouse servers and three hosts")
	}
	cmd := exec.Command(filepath.Join("..", "..", "..", "contrib", "fleet", "fleet.sh"), systest.XdpcapPath)
	cmd.Env = os.Environ()
	printed, err := cmd.CombinedOutput()
	out := string(printed)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	// The largest is the first. All packets have the same length, with the checksum.
	const rate, length = 10, 14 + 20 + 8 + 400 + 4
	rest := out
	for _, want := range []struct {
		flow    string
		packets float64
	}{{"10.99.1.2\t10.99.3.2\t7001\t", 3000}, {"10.99.2.2\t10.99.1.2\t7002\t", 1500}, {"10.99.3.2\t10.99.2.2\t7003\t", 500}} {
		_, rest, _ = strings.Cut(rest, want.flow)
		var packets, bytes float64
		fmt.Sscan(rest, &packets, &bytes)
		// One of ten is drawn, so the deviation is three times the root of the packets.
		if limit := 5 * 3 * math.Sqrt(want.packets); math.Abs(packets-want.packets) > limit || bytes != packets*length {
			t.Errorf("%q: %.0f packets with %.0f bytes, want %.0f: %s", want.flow, packets, bytes, want.packets, out)
		}
	}

	line := regexp.MustCompile(`(?m)^host \d: (\d+) packets, (\d+) samples with (\d+) bytes in \d+ datagrams, ` +
		`(\d+) rows for (\d+) packets with (\d+) bytes, (\d+) lost, (\d+) dropped$`)
	hosts := line.FindAllStringSubmatch(out, -1)
	if len(hosts) != 3 {
		t.Fatalf("%d lines about hosts: %s", len(hosts), out)
	}
	total := 0
	for i, dropped := range []int{500, 200, 0} {
		n := numbers(t, hosts[i][1:])
		seen, samples, bytes := n[0], n[1], n[2]
		want := []int{seen, samples, bytes, samples, rate * samples, rate * bytes, 0, dropped}
		if fmt.Sprint(n) != fmt.Sprint(want) || samples == 0 {
			t.Errorf("host %d: %v, want %v", i+1, n, want)
		}
		total += samples
	}
	servers := regexp.MustCompile(`(?m)^clickhouse[12]: (\d+)$`).FindAllStringSubmatch(out, -1)
	if len(servers) != 2 {
		t.Fatalf("%d lines about servers: %s", len(servers), out)
	}
	shares := numbers(t, []string{servers[0][1], servers[1][1]})
	if shares[0] == 0 || shares[1] == 0 || shares[0]+shares[1] != total {
		t.Errorf("the servers have %v rows of %d samples", shares, total)
	}
}

// numbers reads decimal numbers.
func numbers(t *testing.T, texts []string) (all []int) {
	t.Helper()
	for _, text := range texts {
		var n int
		if _, err := fmt.Sscan(text, &n); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		all = append(all, n)
	}
	return all
}

// The servers' configuration in docs/fleet.md is the one that the fleet runs with.
func TestFleetServers(t *testing.T) {
	t.Parallel()
	shown := strings.Fields(testfile.Block(t, fleetPage, "<remote_servers>"))
	if file := strings.Fields(testfile.Read(t, "contrib/fleet/clickhouse.xml")); !strings.Contains(strings.Join(file, " "), strings.Join(shown, " ")) {
		t.Errorf("contrib/fleet/clickhouse.xml does not have %q", shown)
	}
}

// The drops in the Prometheus query of docs/fleet.md are those of all interfaces of each host.
func TestFleetDrops(t *testing.T) {
	t.Parallel()
	testnet.Require(t, "promtool")
	counts := func(host, eth, verdict, values string) map[string]any {
		return map[string]any{"values": values, "series": fmt.Sprintf("xdpcap_verdict_packets_total{instance=%q,interface=%q,verdict=%q}", host, eth, verdict)}
	}
	query := map[string]any{"expr": testfile.Block(t, fleetPage, "sum by (instance)"), "eval_time": "10m", "exp_samples": []any{
		map[string]any{"labels": `{instance="host1"}`, "value": 3}, map[string]any{"labels": `{instance="host2"}`, "value": 4},
	}}
	rules, err := json.Marshal(map[string]any{"tests": []any{map[string]any{ // JSON is YAML, too
		"interval": "1s", "promql_expr_test": []any{query}, "input_series": []any{
			counts("host1", "eth0", "drop", "0+1x600"), counts("host1", "eth1", "drop", "0+2x600"),
			counts("host1", "eth0", "pass", "0+8x600"), counts("host2", "eth0", "drop", "0+4x600"),
		},
	}}})
	testnet.Must(t, err)
	file := filepath.Join(t.TempDir(), "drops.yml")
	testnet.Must(t, os.WriteFile(file, rules, 0o600))
	if out, err := exec.Command("promtool", "test", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("promtool: %v\n%s", err, out)
	}
}
