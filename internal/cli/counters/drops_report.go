package counters

import (
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/drops"
	"github.com/xdpcap/xdpcap/internal/escape"
	"github.com/xdpcap/xdpcap/internal/meter"
)

type dropsInterval = meter.Interval[drops.Counts]

// DropsReport is what drops prints: as a table, or with --json as this object.
type DropsReport struct {
	IntervalKeys
	Interface  string           `json:"interface,omitempty"`
	Losses     []drops.LossRate `json:"losses"`               // by stage, the largest first
	Total      meter.Rate       `json:"total"`                // of the losses
	Harmless   []drops.LossRate `json:"harmless,omitempty"`   // with --harmless
	Duplicates []drops.LossRate `json:"duplicates,omitempty"` // in no total: their data had arrived before
	Unclear    []drops.LossRate `json:"unclear,omitempty"`    // may be another interface's, and are in no total
	Flows      []FlowLoss       `json:"flows,omitempty"`      // with --flows: by stage, the largest first
	Other      []StageRate      `json:"other,omitempty"`      // with --flows: what a stage lost besides
	Listeners  []drops.LossRate `json:"listeners,omitempty"`  // with -i: refused by TCP's listeners, of all interfaces, and in no total
	Missed     uint64           `json:"missed"`               // losses beyond the largest number of causes
	Softnet    drops.Softnet    `json:"softnet"`
	Conntrack  drops.Conntrack  `json:"conntrack"`

	Overflow         *FlowOverflow `json:"flow_overflow,omitempty"` // with --flows
	*drops.Remainder               // with --check
}

func newDropsReport(o *DropsOptions, iface string, i dropsInterval) *DropsReport {
	r := &DropsReport{
		IntervalKeys: newIntervalKeys(i),
		Interface:    iface,
		Losses:       drops.LossRates(i.Before.Losses, i.Now.Losses, i.Took),
		Duplicates:   drops.LossRates(i.Before.Duplicates, i.Now.Duplicates, i.Took),
		Unclear:      drops.LossRates(i.Before.Unclear, i.Now.Unclear, i.Took),
		Total:        drops.TotalRate(i),
		Listeners:    drops.LossRates(i.Before.Listeners, i.Now.Listeners, i.Took),
		Missed:       i.Now.Missed,
		Softnet:      i.Now.Softnet,
		Conntrack:    i.Now.Conntrack,
		Remainder:    i.Now.Check,
	}
	if o.harmless {
		r.Harmless = drops.LossRates(i.Before.Harmless, i.Now.Harmless, i.Took)
	}
	if o.flows > 0 {
		r.addFlows(i, o.flows)
	}
	return r
}

// The widest cells of the texts: with the numbers, a line has at most 100 columns. WHERE may be
// wider if the others leave room for it.
const (
	reasonWidth = 25
	whereWidth  = 20
)

// WriteTable prints the losses, and what to do about them.
func (r *DropsReport) WriteTable(w io.Writer) {
	var others namespaces
	t := r.table(&others, frame.MaxColumns)
	if tooWide := t.Width() - frame.MaxColumns; tooWide > 0 {
		t = r.table(&others, max(whereWidth, r.widestWhere()-tooWide))
	}
	t.Write(w)
	r.flowTable(w)
	others.write(w)
	losses := slices.Concat(r.Losses, r.Listeners)
	if r.Conntrack.Drop > 0 {
		losses = slices.DeleteFunc(losses, func(l drops.LossRate) bool { return l.Reason == "NETFILTER_DROP" && l.Packets <= r.Conntrack.Drop })
	}
	for _, line := range adviceFor(losses) {
		fmt.Fprintln(w, line)
	}
	if n := r.Conntrack.Drop; n > 0 {
		why := "the table is full: net.netfilter.nf_conntrack_max"
		if failed := r.Conntrack.InsertFailed; failed > 0 {
			why = fmt.Sprintf("no free port for NAT (insert_failed %d): more addresses", failed)
		}
		fmt.Fprintf(w, "conntrack, all interfaces: NETFILTER_DROP %d: %s\n", n, why)
	}
	if n := r.Softnet.Full; n > 0 {
		fmt.Fprintf(w, "softnet, all interfaces: queue of a CPU full %d times: net.core.netdev_max_backlog, RPS\n", n)
	}
	if n := r.Softnet.Squeezed; n > 0 {
		fmt.Fprintf(w, "softnet, all interfaces: out of time with packets left %d times: net.core.netdev_budget\n", n)
	}
	for _, l := range r.Listeners {
		fmt.Fprintln(w, frame.Shorten(fmt.Sprintf("listeners, all interfaces: %s %d: %s", l.Reason, l.Packets, escape.Text(l.Where)), frame.MaxColumns))
	}
	r.writeRemainder(w)
}

// table has the losses. WHERE has at most that many columns.
func (r *DropsReport) table(others *namespaces, where int) *frame.Table {
	t := &frame.Table{Left: 3}
	t.Add("STAGE", "REASON", "WHERE", "DEVICE", "PACKETS", "PACKETS/S")
	add := func(stage string, l drops.LossRate) {
		device := l.Device
		if l.Netns != 0 {
			device += fmt.Sprint("@", others.number(l.Netns))
		}
		t.Add(stage, frame.Shorten(l.Reason, reasonWidth), frame.Shorten(l.Where, where), device,
			fmt.Sprint(l.Packets), frame.Scaled(l.PacketsPerSecond))
	}
	for _, l := range r.Losses {
		add(string(l.Stage), l)
	}
	t.Add("total", "", "", "", fmt.Sprint(r.Total.Packets), frame.Scaled(r.Total.PacketsPerSecond))
	for _, l := range r.Duplicates {
		add("duplicate", l)
	}
	for _, l := range r.Unclear {
		add("unclear", l)
	}
	for _, l := range r.Harmless {
		add("harmless", l)
	}
	if r.Missed > 0 {
		t.Add("missed", "too many causes: use -i", "", "", fmt.Sprint(r.Missed))
	}
	return t
}

func (r *DropsReport) widestWhere() (columns int) {
	for _, l := range slices.Concat(r.Losses, r.Duplicates, r.Unclear, r.Harmless) {
		columns = max(columns, utf8.RuneCountInString(l.Where))
	}
	return min(columns, frame.MaxColumns)
}
