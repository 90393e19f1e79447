package counters

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/drops"
	"github.com/xdpcap/xdpcap/internal/lost"
	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/meter"
)

type dropsInterval = meter.Interval[drops.Counts]

// DropsReport is what drops prints: as a table, or with --json as this object.
type DropsReport struct {
	IntervalKeys
	Interface  string           `json:"interface,omitempty"`
	Filter     string           `json:"filter,omitempty"`
	Losses     []ExplainedLoss  `json:"losses"`               // by stage, the largest first
	Total      meter.Rate       `json:"total"`                // of the losses
	Harmless   []drops.LossRate `json:"harmless,omitempty"`   // with --harmless
	Duplicates []drops.LossRate `json:"duplicates,omitempty"` // in no total: their data had arrived before
	Unclear    []drops.LossRate `json:"unclear,omitempty"`    // may be another interface's, and are in no total
	Unfiltered []drops.LossRate `json:"unfiltered,omitempty"` // with a filter: of all packets, and in no total
	Way        *Way             `json:"way,omitempty"`        // with a filter
	Flows      []FlowLoss       `json:"flows,omitempty"`      // with --flows: by stage, the largest first
	Other      []StageRate      `json:"other,omitempty"`      // with --flows: what a stage lost besides
	Listeners  []drops.LossRate `json:"listeners,omitempty"`  // with -i: refused by TCP's listeners, of all interfaces, and in no total
	Missed     uint64           `json:"missed"`               // losses beyond the largest number of causes
	Softnet    lost.Softnet     `json:"softnet"`
	Conntrack  drops.Conntrack  `json:"conntrack"`

	Retransmits *Retransmits `json:"retransmits,omitempty"` // with --retransmits

	pods     map[uint32]string // their names by network namespace
	untraced bool              // the interface's XDP program cannot be traced
	freed    bool              // a filter selects the packets that it drops

	Overflow         *FlowOverflow `json:"flow_overflow,omitempty"` // with --flows
	*drops.Remainder               // with --check
}

// NewDropsReport returns the report of an interval on an interface, "" for all.
func NewDropsReport(o *DropsOptions, iface string, i dropsInterval) *DropsReport {
	rates := func(before, now map[drops.Loss]drops.Tally) []drops.LossRate { return o.rates(before, now, i.Took) }
	r := &DropsReport{
		IntervalKeys: newIntervalKeys(i),
		Interface:    iface,
		Filter:       o.filter.String(),
		pods:         o.pods,
		untraced:     i.Now.Untraced != nil,
		freed:        i.Now.Freed,
		Losses:       explainedLosses(rates(i.Before.Losses, i.Now.Losses), i.Now.Evidence, iface, i.Now.Untraced != nil),
		Duplicates:   rates(i.Before.Duplicates, i.Now.Duplicates),
		Unclear:      rates(i.Before.Unclear, i.Now.Unclear),
		Unfiltered:   rates(i.Before.Unfiltered, i.Now.Unfiltered),
		Way:          newWay(i),
		Total:        drops.TotalRate(i),
		Listeners:    rates(i.Before.Listeners, i.Now.Listeners),
		Missed:       i.Now.Missed,
		Softnet:      i.Now.Softnet,
		Conntrack:    i.Now.Conntrack,
		Remainder:    i.Now.Check,
		Retransmits:  newRetransmits(o, i),
	}
	if o.harmless {
		r.Harmless = rates(i.Before.Harmless, i.Now.Harmless)
	}
	if o.flows > 0 {
		r.addFlows(i, o.flows)
	}
	return r
}

// rates are those of losses, with the pods of their network namespaces.
func (o *DropsOptions) rates(before, now map[drops.Loss]drops.Tally, took time.Duration) []drops.LossRate {
	all := drops.LossRates(before, now, took)
	for i := range all {
		all[i].Pod = o.pods[all[i].Netns]
	}
	return all
}

// outsideTotal is before losses that are in no total.
const outsideTotal = "not in the total: "

// WriteTable prints the losses, and what to do about them.
func (r *DropsReport) WriteTable(w io.Writer) {
	r.Way.write(w)
	var others namespaces
	r.lossTable(&others).Write(w)
	r.flowTable(w)
	r.Retransmits.write(w, r.Interface, &others)
	others.write(w, r.pods)
	for _, line := range slices.Concat(r.Culprits(), adviceFor(r.withoutRule(), r.Interface, r.untraced), r.filterAdvice()) {
		frame.PageOf(w).Line("%s", line)
	}
	if n := r.Softnet.Full; n > 0 {
		fmt.Fprintf(w, "softnet, all interfaces: queue of a CPU full %d times: net.core.netdev_max_backlog, RPS\n", n)
	}
	if n := r.Softnet.Squeezed; n > 0 {
		fmt.Fprintf(w, "softnet, all interfaces: out of time with packets left %d times: net.core.netdev_budget\n", n)
	}
	r.writeRemainder(w)
}

// Advice returns what to do about the losses, a line for each cause that differs in that.
func (r *DropsReport) Advice() []string {
	return adviceFor(slices.Concat(lossRates(r.Losses), r.Listeners, r.Unclear), r.Interface, r.untraced)
}

// filterAdvice tells how to find out which packets an untraced program drops.
func (r *DropsReport) filterAdvice() []string {
	dropped := slices.ContainsFunc(r.Losses, func(l ExplainedLoss) bool { return l.Stage == drops.XDP && l.Reason == "drop" })
	if !r.untraced || !r.freed || !dropped || r.Filter != "" {
		return nil
	}
	return []string{"drop: a filter tells whether a flow is among them: xdpcap drops -i " + message.ShellWord(r.Interface) + " 'udp port 53'"}
}

func (r *DropsReport) lossTable(others *namespaces) *frame.Table {
	t := &frame.Table{Left: 3}
	t.Add("STAGE", "REASON", "WHERE", "DEVICE", "PACKETS", "PACKETS/S")
	add := func(lost bool, stage string, l drops.LossRate) {
		device := l.Device
		if l.Netns != 0 {
			device += fmt.Sprint("@", others.number(l.Netns))
		}
		t.AddLost(lost && l.Packets > 0, stage, l.Reason, l.Where, device, fmt.Sprint(l.Packets), frame.Scaled(l.PacketsPerSecond))
	}
	for _, l := range r.Losses {
		add(true, string(l.Stage), l.LossRate)
	}
	t.AddLost(r.Total.Packets > 0, "total", "", "", "", fmt.Sprint(r.Total.Packets), frame.Scaled(r.Total.PacketsPerSecond))
	if len(r.Duplicates)+len(r.Unclear)+len(r.Unfiltered)+len(r.Harmless) > 0 || r.Missed > 0 {
		t.Add(strings.TrimSpace(outsideTotal))
	}
	for _, l := range r.Duplicates {
		add(false, "duplicate", l)
	}
	for _, l := range r.Unclear {
		add(false, "unclear", l)
	}
	for _, l := range r.Unfiltered {
		add(false, "unfiltered", l)
	}
	for _, l := range r.Harmless {
		add(false, "harmless", l)
	}
	if r.Missed > 0 {
		t.AddLost(true, "missed", "too many causes: use -i", "", "", fmt.Sprint(r.Missed))
	}
	return t
}
