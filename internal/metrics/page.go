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

// A livePage shows the metrics to people, as they are now, with rates since the look before.
type livePage struct {
	gatherer prometheus.Gatherer

	mu           sync.Mutex
	before, last reading
}

// A reading has all metrics at a time.
type reading struct {
	at     time.Time
	values map[string]float64 // by name and labels; of counters
}

// minLook is how old a reading must be for rates since then.
const minLook = 500 * time.Millisecond

// ServeHTTP answers with the page. Nothing in it comes from the request.
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

// A view is the metrics of one look, with the look that rates are from.
type view struct {
	families map[string]*family
	names    []string // not shown yet, in alphabetical order
	before   reading
	took     time.Duration
}

// A family has the metrics of one name.
type family struct {
	name, help string
	labels     []string // the names, the interface first
	series     []series
}

// A series has the values of the labels, in the order of its family.
type series struct {
	labels    []string
	value     float64
	rate      float64 // per second; 0 for gauges
	histogram *dto.Histogram
}

// page makes the page of one look.
func (l *livePage) page(all []*dto.MetricFamily, now time.Time) *report.Page {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.last.at.IsZero() && now.Sub(l.last.at) >= minLook {
		l.before = l.last
	}
	v := view{families: make(map[string]*family), before: l.before, took: now.Sub(l.before.at)}
	current := reading{now, make(map[string]float64)}
	for _, f := range all {
		v.add(f, current.values)
	}
	if l.last.at.IsZero() || now.Sub(l.last.at) >= minLook {
		l.last = current
	}
	p := &report.Page{Title: "xdpcap", Live: true, Lead: []string{v.since(now)}}
	if host, err := os.Hostname(); err == nil {
		p.Title = "xdpcap on " + host
	}
	v.account(p)
	v.packets(p)
	v.histograms(p)
	v.others(p)
	return p
}

// add adds the metrics of a name, and their values for later rates.
func (v *view) add(all *dto.MetricFamily, values map[string]float64) {
	f := &family{name: all.GetName(), help: strings.TrimSuffix(all.GetHelp(), ".")}
	for _, m := range all.Metric {
		s := series{histogram: m.Histogram, value: cmp.Or(m.GetCounter().GetValue(), m.GetGauge().GetValue())}
		pairs := slices.Clone(m.Label)
		slices.SortStableFunc(pairs, func(a, b *dto.LabelPair) int {
			first := func(p *dto.LabelPair) int {
				if p.GetName() == "interface" {
					return 0
				}
				return 1
			}
			return first(a) - first(b)
		})
		f.labels = nil
		for _, p := range pairs {
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

// omit leaves out a label that no series has.
func (f *family) omit(label int) {
	f.labels = slices.Delete(f.labels, label, label+1)
	for i := range f.series {
		f.series[i].labels = slices.Delete(f.series[i].labels, label, label+1)
	}
}

// take returns a family, which is then not shown again; nil = there is none.
func (v *view) take(name string) *family {
	v.names = slices.DeleteFunc(v.names, func(n string) bool { return n == name })
	return v.families[name]
}

// since says when the numbers are from.
func (v *view) since(now time.Time) string {
	text := "At " + now.Format("2006-01-02 15:04:05 MST")
	if f := v.take("xdpcap_capture_start_time_seconds"); f != nil && len(f.series) > 0 {
		began := time.Unix(0, int64(f.series[0].value*1e9))
		text += fmt.Sprintf(", %v after the beginning", now.Sub(began).Round(time.Second))
	}
	if !v.before.at.IsZero() {
		text += fmt.Sprintf("; rates are those of the last %.1f s", v.took.Seconds())
	}
	return text + ". The same numbers for Prometheus are at /metrics."
}

// totals are the sums of a family's values and rates.
func (f *family) totals() (value, rate float64) {
	if f == nil {
		return 0, 0
	}
	for _, s := range f.series {
		value, rate = value+s.value, rate+s.rate
	}
	return value, rate
}
