package capture

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/capture/stream"
	"github.com/xdpcap/xdpcap/internal/cli/clitest"
	"github.com/xdpcap/xdpcap/internal/cli/outputs"
)

var twoSources = []capture.Source{
	{Name: "rx0", Hook: capture.XDP},
	{Name: "rx1", Hook: capture.Exit, Target: capture.Program{ID: 7, Name: "firewall"}},
}

// Each source has its own numbers, under its own labels. A capture without a file has no size of a
// file.
func TestCaptureMetrics(t *testing.T) {
	t.Parallel()
	one := capture.Account{Seen: 21, FilteredOut: 1, NotSampled: 2, NotRecorded: 1, Lost: 3, NotTaken: 1, Invalid: 5, Captured: 10, Bytes: 640}
	began := time.Unix(1700000000, 500_000_000)
	m := Metrics(capture.TransportRing, began)
	r := captureReading{series: seriesOf(twoSources, nil, capture.Accounts{one, {Seen: 4}}), fileSize: 1234, clients: &stream.ServerAccount{Connected: 2, Clients: 70, Refused: 6, Lost: 99},
		outputs: []outputs.Summary{{Output: "a", Captured: 10, Bytes: 640, NotTaken: 1}, {Output: "tcp://b:1", Captured: 9, Bytes: 576, NotTaken: 2}}}
	text := clitest.Scraped(t, r, m)
	for _, want := range []string{
		`xdpcap_capture_info{transport="ring"} 1`,
		`xdpcap_capture_start_time_seconds{} 1.7000000005e+09`,
		`xdpcap_output_file_bytes{} 1234`,
		`xdpcap_connected_clients{} 2`,
		`xdpcap_clients_total{} 70`,
		`xdpcap_clients_refused_total{} 6`,
		`xdpcap_clients_lost_packets_total{} 99`,
		`xdpcap_output_captured_packets_total{output="a"} 10`,
		`xdpcap_output_captured_packets_total{output="tcp://b:1"} 9`,
		`xdpcap_output_captured_bytes_total{output="tcp://b:1"} 576`,
		`xdpcap_output_not_taken_packets_total{output="tcp://b:1"} 2`,
		`xdpcap_seen_packets_total{hook="xdp",interface="rx0",program="",program_id=""} 21`,
		`xdpcap_seen_packets_total{hook="exit",interface="rx1",program="firewall",program_id="7"} 4`,
		`xdpcap_filtered_out_packets_total{hook="xdp",interface="rx0",program="",program_id=""} 1`,
		`xdpcap_not_sampled_packets_total{hook="xdp",interface="rx0",program="",program_id=""} 2`,
		`xdpcap_not_recorded_packets_total{hook="xdp",interface="rx0",program="",program_id=""} 1`,
		`xdpcap_lost_packets_total{hook="xdp",interface="rx0",program="",program_id=""} 3`,
		`xdpcap_not_taken_packets_total{hook="xdp",interface="rx0",program="",program_id=""} 1`,
		`xdpcap_invalid_packets_total{hook="xdp",interface="rx0",program="",program_id=""} 5`,
		`xdpcap_captured_packets_total{hook="xdp",interface="rx0",program="",program_id=""} 10`,
		`xdpcap_captured_bytes_total{hook="xdp",interface="rx0",program="",program_id=""} 640`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	clitest.CheckMetrics(t, r, m)
	r.fileSize, r.clients = -1, nil
	if text := clitest.Scraped(t, r, m); strings.Contains(text, "xdpcap_output_file_bytes") || strings.Contains(text, "xdpcap_clients") {
		t.Errorf("no file has a size, or no server clients:\n%s", text)
	}
}

// An interface that has gone and come again continues its series, and one that stays away ends it.
func TestSeriesOfComings(t *testing.T) {
	t.Parallel()
	sources := []capture.Source{{Name: "veth0"}, {Name: "veth1"}, {Name: "veth0"}, {Name: "veth0", Hook: capture.Egress}}
	accounts := capture.Accounts{{Seen: 1}, {Seen: 10}, {Seen: 100}}
	for _, test := range []struct {
		gone []int
		want string
	}{
		{nil, "veth0 xdp 101, veth1 xdp 10, veth0 egress 0, "},
		{[]int{0}, "veth0 xdp 101, veth1 xdp 10, veth0 egress 0, "},
		{[]int{0, 1}, "veth0 xdp 101, veth0 egress 0, "},
		{[]int{1, 0, 2, 3}, ""},
	} {
		got := ""
		for _, s := range seriesOf(sources, test.gone, accounts) {
			got += fmt.Sprintf("%s %s %d, ", s.labels[0], s.labels[1], s.Seen)
		}
		if got != test.want {
			t.Errorf("without %v: %s, want %s", test.gone, got, test.want)
		}
	}
}
