package metrics

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// fake has one metric, whose value is the snapshot.
var fake = Set[uint64]{All: []Metric[uint64]{{
	Name: "xdpcap_fake_total", Help: "Of nothing.",
	Values: func(n uint64, send SendValue) { send(float64(n)) },
}}}

// However many scrapes there are, the counters are read ten times per second at most.
func TestScrapesShareReadings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		readings := 0
		r := NewRegistry(NewCollector(func() (uint64, error) { readings++; return 1, nil }, fake))
		for range 5 * time.Second / (20 * time.Millisecond) {
			var scrapes sync.WaitGroup
			for range 3 {
				scrapes.Go(func() {
					if families, err := r.Gather(); err != nil || len(families) != 1 {
						t.Errorf("%v, %v", families, err)
					}
				})
			}
			scrapes.Wait()
			time.Sleep(20 * time.Millisecond)
		}
		if readings != 50 {
			t.Errorf("%d readings in 5 seconds, want 50", readings)
		}
	})
}

// A scrape is answered with the counters until the exporter is closed.
func TestExporter(t *testing.T) {
	t.Parallel()
	e, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e.Serve(NewRegistry(NewCollector(func() (uint64, error) { return 1, nil }, fake)))
	defer e.Close()
	for range 2 {
		r, err := http.Get("http://" + e.Address() + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(r.Body)
		r.Body.Close()
		if !strings.Contains(string(body), "\nxdpcap_fake_total ") || !strings.Contains(string(body), "# TYPE xdpcap_fake_total counter") {
			t.Errorf("%s", body)
		}
	}
	if _, err := Listen(e.Address()); err == nil || !strings.Contains(err.Error(), "in use; give") {
		t.Error(err)
	}
	e.Close()
	if _, err := http.Get("http://" + e.Address() + "/metrics"); err == nil {
		t.Error("it still listens")
	}
}
