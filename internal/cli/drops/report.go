package drops

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/xdpcap/xdpcap/internal/cli/counters"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/drops"
	"github.com/xdpcap/xdpcap/internal/meter"
)

type interval = meter.Interval[drops.Counts]

// Report is what drops prints: as a table, or with --json as this object.
type Report struct {
	counters.IntervalKeys
	Interface string      `json:"interface,omitempty"`
	Losses    []Loss      `json:"losses"`             // by stage, the largest first
	Total     meter.Rate  `json:"total"`              // of the losses
	Harmless  []Loss      `json:"harmless,omitempty"` // with --harmless
	Unclear   []Loss      `json:"unclear,omitempty"`  // may be another interface's, and are in no total
	Flows     []FlowLoss  `json:"flows,omitempty"`    // with --flows: by stage, the largest first
	Other     []StageRate `json:"other,omitempty"`    // with --flows: what a stage lost besides
	Missed    uint64      `json:"missed"`             // losses beyond the largest number of causes
	Softnet   Softnet     `json:"softnet"`

	Overflow *counters.FlowOverflow `json:"flow_overflow,omitempty"` // with --flows
}

// Softnet is what all CPUs of the machine tell together, since the start.
type Softnet struct {
	Full     uint64 `json:"backlog_full"`
	Squeezed uint64 `json:"time_squeeze"`
}

// A Loss is a cause of loss, and its packets.
type Loss struct {
	Stage  string `json:"stage"`
	Reason string `json:"reason"`
	Where  string `json:"where,omitempty"`
	Device string `json:"device,omitempty"` // where it is another interface; "?" = unknown
	meter.Rate

	stage drops.Stage
}

func newReport(o *Options, iface string, i interval) *Report {
	r := &Report{
		IntervalKeys: counters.NewIntervalKeys(i),
		Interface:    iface,
		Losses:       rates(i.Before.Losses, i.Now.Losses, i.Took),
		Unclear:      rates(i.Before.Unclear, i.Now.Unclear, i.Took),
		Missed:       i.Now.Missed,
		Softnet:      Softnet(i.Now.Softnet),
	}
	if o.harmless {
		r.Harmless = rates(i.Before.Harmless, i.Now.Harmless, i.Took)
	}
	if o.flows > 0 {
		r.addFlows(i, o.flows)
	}
	var before, now meter.Tally
	for l, tally := range i.Now.Losses {
		was := i.Before.Losses[l]
		before.Add(meter.Tally{Packets: was.Packets, Bytes: was.Bytes})
		now.Add(meter.Tally{Packets: tally.Packets, Bytes: tally.Bytes})
	}
	r.Total = meter.NewRate(before, now, i.Took)
	return r
}

// rates returns the losses with their rates.
func rates(before, now map[drops.Loss]drops.Tally, took time.Duration) []Loss {
	list := []Loss{}
	for l, tally := range now {
		was := before[l]
		list = append(list, Loss{
			Stage: l.Stage.String(), Reason: l.Reason, Where: l.Where, Device: l.Device, stage: l.Stage,
			Rate: meter.NewRate(meter.Tally{Packets: was.Packets, Bytes: was.Bytes},
				meter.Tally{Packets: tally.Packets, Bytes: tally.Bytes}, took),
		})
	}
	slices.SortFunc(list, func(a, b Loss) int {
		return cmp.Or(cmp.Compare(a.stage, b.stage), cmp.Compare(b.Packets, a.Packets), cmp.Compare(a.Reason, b.Reason),
			cmp.Compare(a.Where, b.Where), cmp.Compare(a.Device, b.Device))
	})
	return list
}

// Object is the report itself.
func (r *Report) Object() any { return r }

// The widest cells of the texts: with the numbers, a line has at most 100 columns.
const (
	reasonWidth = 25
	whereWidth  = 21
)

// WriteTable prints the losses, and what to do about them.
func (r *Report) WriteTable(w io.Writer) {
	var t frame.Table
	t.Left = 3
	t.Add("STAGE", "REASON", "WHERE", "DEVICE", "PACKETS", "PACKETS/S")
	add := func(stage string, l Loss) {
		t.Add(stage, frame.Shorten(l.Reason, reasonWidth), frame.Shorten(l.Where, whereWidth), l.Device,
			fmt.Sprint(l.Packets), frame.Scaled(l.PacketsPerSecond))
	}
	for _, l := range r.Losses {
		add(l.Stage, l)
	}
	t.Add("total", "", "", "", fmt.Sprint(r.Total.Packets), frame.Scaled(r.Total.PacketsPerSecond))
	for _, l := range r.Unclear {
		add("unclear", l)
	}
	for _, l := range r.Harmless {
		add("harmless", l)
	}
	if r.Missed > 0 {
		t.Add("missed", "too many causes: use -i", "", "", fmt.Sprint(r.Missed))
	}
	t.Write(w)
	r.flowTable(w)
	reasons := make(map[string]bool)
	for _, l := range r.Losses {
		reasons[l.Reason] = true
	}
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		if text := adviceFor(reason); text != "" {
			fmt.Fprintln(w, frame.Shorten(reason+": "+text, frame.MaxColumns))
		}
	}
	if n := r.Softnet.Full; n > 0 {
		fmt.Fprintf(w, "softnet, all interfaces: queue of a CPU full %d times: net.core.netdev_max_backlog, RPS\n", n)
	}
	if n := r.Softnet.Squeezed; n > 0 {
		fmt.Fprintf(w, "softnet, all interfaces: out of time with packets left %d times: net.core.netdev_budget\n", n)
	}
}
