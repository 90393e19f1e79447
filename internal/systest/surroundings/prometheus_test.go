package surroundings_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testfile"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A prometheusServer is Debian's, which runs in a namespace and scrapes several times a second.
type prometheusServer struct {
	t      *testing.T
	client http.Client
}

const prometheusAddress = "127.0.0.1:9090"

// startPrometheus scrapes targets in the form HOST:PORT.
func startPrometheus(t *testing.T, ns *testnet.Namespace, targets ...string) *prometheusServer {
	t.Helper()
	testnet.Require(t, "prometheus")
	dir := t.TempDir()
	config, _ := json.Marshal(map[string]any{ // JSON is YAML, too
		"global":         map[string]any{"scrape_interval": "200ms", "scrape_timeout": "200ms"},
		"scrape_configs": []any{map[string]any{"job_name": "xdpcap", "static_configs": []any{map[string]any{"targets": targets}}}},
	})
	file := filepath.Join(dir, "prometheus.yml")
	testnet.Must(t, os.WriteFile(file, config, 0o600))
	var said bytes.Buffer
	cmd := exec.Command("prometheus", "--config.file="+file, "--storage.tsdb.path="+dir, "--web.listen-address="+prometheusAddress, "--log.level=error")
	cmd.Stderr = &said
	testnet.Must(t, ns.Start(cmd))
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			t.Log("prometheus:", said.String())
		}
	})
	p := &prometheusServer{t: t}
	p.client.Timeout = testnet.Patience
	p.client.Transport = &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (c net.Conn, err error) {
		err = ns.Do(func() error { c, err = net.Dial("tcp", prometheusAddress); return err })
		return c, err
	}}
	testnet.WaitFor(t, "Prometheus to be ready", func() bool {
		r, err := p.client.Get("http://" + prometheusAddress + "/-/ready")
		if err != nil {
			return false
		}
		r.Body.Close()
		return r.StatusCode == http.StatusOK
	})
	return p
}

// query returns the current values of an expression, by the labels that name the series.
func (p *prometheusServer) query(expr string) map[string]string {
	p.t.Helper()
	r, err := p.client.PostForm("http://"+prometheusAddress+"/api/v1/query", url.Values{"query": {expr}})
	if err != nil {
		p.t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	var answer struct {
		Status, Error string
		Data          struct {
			Result []struct {
				Metric map[string]string
				Value  [2]any
			}
		}
	}
	if err == nil {
		err = json.Unmarshal(body, &answer)
	}
	if err != nil || answer.Status != "success" {
		p.t.Fatalf("%s: %v %s", expr, err, answer.Error)
	}
	values := make(map[string]string)
	for _, s := range answer.Data.Result {
		name := s.Metric["__name__"]
		for _, label := range []string{"interface", "transport"} {
			name = strings.TrimSpace(name + " " + s.Metric[label])
		}
		values[name] = s.Value[1].(string)
	}
	return values
}

// A Prometheus that scrapes a capture returns the numbers of the account, and accepts the
// dashboard's queries.
func TestPrometheus(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	file := systest.TempFile(t)
	before := time.Now()
	p := systest.Listening(t, pair.Rx, nil, "-i", "rx0", "-w", file, "-U", "-s", "70", "--first", "3", "--listen", "127.0.0.1:0", "--json", "udp")
	target, _, _ := strings.Cut(strings.TrimPrefix(systest.MetricsURL(t, p), "http://"), "/")
	db := startPrometheus(t, pair.Rx, target)
	path := testnet.TxToRx()
	for range 7 {
		testnet.Send(t, pair, path.ARPRequest(), path.UDP(1, 2, make([]byte, 100)), path.UDP(2, 2, make([]byte, 20)))
	}
	// All checked values come from one query, because Prometheus has no numbers between a scrape
	// that a busy machine did not answer in time and the next one.
	var got map[string]string
	const fileBytes, startTime = "xdpcap_output_file_bytes", "xdpcap_capture_start_time_seconds"
	testnet.WaitFor(t, "a scrape after the last packet", func() bool {
		size, err := os.Stat(file)
		got = db.query(`{__name__=~"xdpcap_.+_total|xdpcap_capture_info|` + fileBytes + "|" + startTime + `"}`)
		return err == nil && got["xdpcap_seen_packets_total rx0"] == "21" && got["xdpcap_captured_packets_total rx0"] == "6" &&
			got[fileBytes] == strconv.FormatInt(size.Size(), 10)
	})
	began := got[startTime]
	delete(got, fileBytes)
	delete(got, startTime)
	checkDashboardQueries(t, db)
	checkMetrics(t, systest.Scrape(t, pair, systest.MetricsURL(t, p)))
	s := systest.Account(t, p.Interrupt())

	want := map[string]string{"xdpcap_capture_info " + s.Transport: "1"}
	a := s.Interfaces[0].AccountKeys
	for name, n := range map[string]uint64{
		"seen_packets": a.Seen, "passed_by_packets": a.PassedBy, "filtered_out_packets": a.FilteredOut, "undecided_packets": a.Undecided, "not_sampled_packets": a.NotSampled,
		"lost_packets": a.Lost, "not_recorded_packets": a.NotRecorded, "not_taken_packets": a.NotTaken, "invalid_packets": a.Invalid, "captured_packets": a.Captured, "captured_bytes": a.Bytes,
	} {
		want["xdpcap_"+name+"_total rx0"] = fmt.Sprint(n)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the account (-) and Prometheus's answer (+): %s", diff)
	}
	if want := (systest.AccountKeys{Account: capture.Account{Seen: 21, FilteredOut: 7, NotSampled: 8, Captured: 6, Bytes: 3*70 + 3*62}}); a != want {
		t.Errorf("%+v, want %+v", a, want)
	}
	if seconds, err := strconv.ParseFloat(began, 64); err != nil || seconds < float64(before.UnixMilli())/1e3 || seconds > float64(time.Now().Unix())+1 {
		t.Errorf("it began at %s, %v", began, err)
	}
}

// checkDashboardQueries runs the panels' queries in Prometheus.
func checkDashboardQueries(t *testing.T, db *prometheusServer) {
	t.Helper()
	fill := strings.NewReplacer("$instance", ".*", "$interface", ".*", "$__rate_interval", "1m")
	for _, p := range testfile.ReadDashboard(t).Panels {
		for _, target := range p.Targets {
			ask := func() map[string]string { return db.query(fill.Replace(target.Expr)) }
			if strings.Contains(target.Expr, "xdpcap_captur") { // a rate exists after two scrapes
				testnet.WaitFor(t, "something to show in panel "+p.Title, func() bool { return len(ask()) > 0 })
			} else {
				ask()
			}
		}
	}
}

// checkMetrics checks the exported metrics with promtool.
func checkMetrics(t *testing.T, text string) {
	t.Helper()
	cmd := exec.Command("promtool", "check", "metrics")
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool check metrics: %v %s", err, out)
	}
}

// The alert rules are well formed, and raise the alerts in testdata/alerts.yml.
func TestAlertRules(t *testing.T) {
	t.Parallel()
	testnet.Require(t, "promtool")
	for _, args := range [][]string{{"check", "rules", "../../../contrib/prometheus-xdpcap.rules.yml"}, {"test", "rules", "testdata/alerts.yml"}} {
		if out, err := exec.Command("promtool", args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}
