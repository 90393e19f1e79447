package metrics

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/html"

	"github.com/xdpcap/xdpcap/internal/meter"
)

// sampleSet has metrics of a capture and of counters. The snapshot is how many seconds it runs.
func sampleSet() (m Set[uint64]) {
	for name, of := range map[string]uint64{"seen": 1000, "filtered_out": 500, "not_sampled": 200, "lost": 10, "invalid": 0, "captured": 280, "passed_by": 7} {
		m.Count("xdpcap_"+name+"_packets_total", "Of the account.", []string{"program", "interface"}, func(n uint64, send SendValue) {
			send(float64(of*n), "", `eth0<script>`)
			send(float64(of*n), "lb", "eth1")
		})
	}
	m.Tallies("xdpcap_verdict_packets_total", "by verdict", []string{"verdict"}, func(n uint64, send func(meter.Tally, ...string)) {
		send(meter.Tally{Packets: n, Bytes: 100 * n}, "pass")
		send(meter.Tally{Packets: 3 * n, Bytes: 300 * n}, "drop")
	})
	m.All = append(m.All, Metric[uint64]{Name: "xdpcap_latency_seconds", Help: "Run times.", Times: func(n uint64, send SendTimes) {
		var h meter.Histogram
		for range n {
			h.Observe(100)
		}
		send(&h)
	}}, Metric[uint64]{Name: "xdpcap_connected_clients", Help: "Clients.", Gauge: true, Values: func(_ uint64, send SendValue) { send(2) }})
	return m
}

// The page has the numbers of the metrics, and the rates since the look before; names are text.
func TestPage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		page := &livePage{gatherer: NewRegistry(NewCollector(func() (uint64, error) { return uint64(time.Since(began) / time.Second), nil }, sampleSet()))}
		look := func() string {
			w := httptest.NewRecorder()
			page.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
			if w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Security-Policy"), "default-src 'none'; style-src 'sha256-") {
				t.Errorf("status %d, %v", w.Code, w.Header())
			}
			root, err := html.Parse(w.Body)
			if err != nil {
				t.Fatal(err)
			}
			var text []string
			scripts := 0
			for n := range root.Descendants() {
				switch {
				case n.Data == "script":
					scripts++
				case n.Type == html.TextNode && strings.TrimSpace(n.Data) != "" && n.Parent.Data != "script" && n.Parent.Data != "style":
					text = append(text, strings.TrimSpace(n.Data))
				}
			}
			if scripts != 1 {
				t.Errorf("%d scripts", scripts)
			}
			return strings.Join(text, "|")
		}
		time.Sleep(time.Second)
		look()
		time.Sleep(2 * time.Second)
		text := look()
		for _, want := range []string{
			"rates are those of the last 2.0 s",
			"6,000 seen = 3,000 filtered out + 1,200 not sampled + 60 lost + 0 invalid + 1,680 captured + 60 on their way to the output",
			"Interface|Program|Seen|Seen/s|Filtered out|", "eth0<script>|3,000|1,000|1,500|600|30|0|840|21|", "eth1|lb|3,000|1,000|",
			"Verdict|Packets|Packets/s|Bytes|Bit/s|drop|9|3|900|2,400|pass|3|1|300|800",
			"Runs|Mean|Median, at most|99 %, at most|3|100ns|127ns|127ns", "Clients|2|0",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("the page lacks %q: %s", want, text)
			}
		}
		// A second look at once has the rates of the first.
		if again := look(); !strings.Contains(again, "eth1|lb|3,000|1,000|") {
			t.Errorf("at once: %s", again)
		}
	})
}

// The page is where a browser looks first, for requests to this host alone, and nothing else is.
func TestExporterPages(t *testing.T) {
	t.Parallel()
	e, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e.Serve(NewRegistry(NewCollector(func() (uint64, error) { return 1, nil }, fake)))
	defer e.Close()
	var statuses []int
	for _, of := range []struct{ method, path, host string }{{"GET", "/", ""}, {"GET", "/", "evil.example"}, {"POST", "/", ""}, {"GET", "/other", ""}, {"GET", "/metrics", ""}} {
		request, err := http.NewRequest(of.method, "http://"+e.Address()+of.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Host = of.host
		r, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, r.Body)
		r.Body.Close()
		statuses = append(statuses, r.StatusCode)
	}
	if want := []int{200, 421, 405, 404, 200}; !slices.Equal(statuses, want) {
		t.Errorf("%v, want %v", statuses, want)
	}
}
