package metrics

import (
	"bytes"
	"cmp"
	"fmt"
	"log"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/xdpcap/xdpcap/internal/report"
)

// A livePage shows the current metrics to people, with rates since an earlier request.
type livePage struct {
	gatherer prometheus.Gatherer

	mu     sync.Mutex // guards the fields below
	last   reading    // replaced by the first request after minInterval
	before reading    // the one before, from which the rates are; zero = no rates yet
}

// A reading has the values of all counters at one time.
type reading struct {
	at     time.Time
	values map[string]float64 // by name and labels
}

// minInterval is the shortest time for which rates are computed.
const minInterval = 500 * time.Millisecond

// ServeHTTP answers with the page. It does not depend on the request.
func (l *livePage) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	families, err := l.gatherer.Gather()
	if err != nil && len(families) == 0 {
		http.Error(w, "the counters cannot be read", http.StatusServiceUnavailable)
		return
	}
	p := l.page(families, time.Now())
	var text bytes.Buffer
	if err := p.Write(&text); err != nil {
		log.Panic(err) // never: the template is ours
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", report.Policy+"; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	w.Write(text.Bytes())
}

// A view makes the page of one request.
type view struct {
	page     *report.Page
	families map[string]*family
	names    []string      // of families that are in no section yet, in alphabetical order
	before   reading       // the earlier reading, from which the rates are
	took     time.Duration // since before
}

// A family has the metrics of one name.
type family struct {
	name, help string
	labels     []string // names, the interface first
	series     []series
}

// A series has the values of the labels, in the order of its family.
type series struct {
	labels    []string
	value     float64
	rate      float64 // per second; 0 for gauges
	histogram *dto.Histogram
}

// page makes the page of one request.
func (l *livePage) page(all []*dto.MetricFamily, now time.Time) *report.Page {
	l.mu.Lock()
	defer l.mu.Unlock()
	isDue := now.Sub(l.last.at) >= minInterval
	if isDue {
		l.before = l.last
	}
	v := view{page: &report.Page{Title: "xdpcap", Live: true}, families: make(map[string]*family), before: l.before, took: now.Sub(l.before.at)}
	current := reading{now, make(map[string]float64)}
	for _, f := range all {
		v.add(f, current.values)
	}
	if isDue {
		l.last = current
	}
	if host, err := os.Hostname(); err == nil {
		v.page.Title = "xdpcap on " + host
	}
	v.page.Lead = []string{v.lead(now)}
	v.addAccount()
	v.addPackets()
	v.addHistograms()
	v.addOthers()
	return v.page
}

// add adds the family of a name. It stores the values of counters for later rates.
func (v *view) add(all *dto.MetricFamily, values map[string]float64) {
	f := &family{name: all.GetName(), help: strings.TrimSuffix(all.GetHelp(), ".")}
	for _, m := range all.Metric {
		s := series{histogram: m.Histogram, value: cmp.Or(m.GetCounter().GetValue(), m.GetGauge().GetValue())}
		f.labels = nil
		for _, p := range interfaceFirst(m.Label) {
			f.labels, s.labels = append(f.labels, p.GetName()), append(s.labels, p.GetValue())
		}
		if key := fmt.Sprintf("%s%q", f.name, s.labels); m.Counter != nil {
			values[key] = s.value
			if earlier, ok := v.before.values[key]; ok && s.value >= earlier && v.took > 0 {
				s.rate = (s.value - earlier) / v.took.Seconds()
			}
		}
		f.series = append(f.series, s)
	}
	for i := len(f.labels) - 1; i >= 0; i-- {
		if !slices.ContainsFunc(f.series, func(s series) bool { return s.labels[i] != "" }) {
			f.omit(i)
		}
	}
	v.families[f.name], v.names = f, append(v.names, f.name)
}

// interfaceFirst returns the labels in their order, but the interface as the first.
func interfaceFirst(labels []*dto.LabelPair) []*dto.LabelPair {
	i := slices.IndexFunc(labels, func(p *dto.LabelPair) bool { return p.GetName() == "interface" })
	if i < 0 {
		return labels
	}
	return slices.Concat(labels[i:i+1], labels[:i], labels[i+1:])
}

// omit removes a label that no series has.
func (f *family) omit(label int) {
	f.labels = slices.Delete(f.labels, label, label+1)
	for i := range f.series {
		f.series[i].labels = slices.Delete(f.series[i].labels, label, label+1)
	}
}

// pop returns a family for a section, so that no other section shows it; nil = there is none.
func (v *view) pop(name string) *family {
	v.names = slices.DeleteFunc(v.names, func(n string) bool { return n == name })
	return v.families[name]
}

// lead returns the time of the numbers, and the interval of the rates.
func (v *view) lead(now time.Time) string {
	text := "At " + now.Format("2006-01-02 15:04:05 MST")
	if f := v.pop("xdpcap_capture_start_time_seconds"); f != nil && len(f.series) > 0 {
		began := time.Unix(0, int64(f.series[0].value*1e9))
		text += fmt.Sprintf(", %v after the beginning", now.Sub(began).Round(time.Second))
	}
	if !v.before.at.IsZero() {
		text += fmt.Sprintf("; rates are those of the last %.1f s", v.took.Seconds())
	}
	return text + ". The same numbers for Prometheus are at /metrics."
}

// totals returns the sums of a family's values and rates.
func (f *family) totals() (value, rate float64) {
	if f == nil {
		return 0, 0
	}
	for _, s := range f.series {
		value, rate = value+s.value, rate+s.rate
	}
	return value, rate
}
