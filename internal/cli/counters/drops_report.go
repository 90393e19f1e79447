package counters

import (
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/drops"
	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/meter"
	"golang.org/x/sys/unix"
)

type dropsInterval = meter.Interval[drops.Counts]

// DropsReport is printed by drops: as a table, or with --json as this object.
type DropsReport struct {
	IntervalKeys
	Interface  string           `json:"interface,omitempty"`
	Filter     string           `json:"filter,omitempty"`
	Losses     []ExplainedLoss  `json:"losses"`               // by stage, the largest first
	Total      meter.Rate       `json:"total"`                // of the losses
	Harmless   []drops.LossRate `json:"harmless,omitempty"`   // with --harmless
	Duplicates []drops.LossRate `json:"duplicates,omitempty"` // their data had arrived before; in no total
	Unclear    []drops.LossRate `json:"unclear,omitempty"`    // perhaps of another interface; in no total
	Unfiltered []drops.LossRate `json:"unfiltered,omitempty"` // with a filter: of all packets; in no total
	Way        *Way             `json:"way,omitempty"`        // with a filter
	Flows      []FlowLoss       `json:"flows,omitempty"`      // with --flows: by stage, the largest first
	Other      []StageRate      `json:"other,omitempty"`      // with --flows: the other losses of each stage
	Listeners  []drops.LossRate `json:"listeners,omitempty"`  // with -i: by TCP's listeners, for all interfaces, and in no total
	Missed     uint64           `json:"missed"`               // losses beyond the largest number of causes
	Softnet    drops.Softnet    `json:"softnet"`
	Conntrack  drops.Conntrack  `json:"conntrack"`

	Retransmits *Retransmits `json:"retransmits,omitempty"` // with --retransmits

	pods     map[uint32]string // names of pods by network namespace
	untraced bool              // the interface's XDP program cannot be traced
	freed    bool              // the filter also applies to packets that it drops

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

// rates returns the rates of losses, with the pods of their network namespaces.
func (o *DropsOptions) rates(before, now map[drops.Loss]drops.Tally, took time.Duration) []drops.LossRate {
	all := drops.LossRates(before, now, took)
	for i := range all {
		all[i].Pod = o.pods[all[i].Netns]
	}
	return all
}

// outsideTotal begins a line about losses that are in no total.
const outsideTotal = "not in the total: "

// WriteTable prints the losses, their culprits and advice.
func (r *DropsReport) WriteTable(w io.Writer) {
	r.Way.write(w)
	var numbered namespaces
	r.lossTable(&numbered).Write(w)
	r.flowTable(w)
	r.Retransmits.write(w, r.Interface, &numbered)
	numbered.write(w, r.pods)
	for _, line := range slices.Concat(r.culprits(), adviceFor(r.withoutRule(), r.Interface, r.untraced), r.filterAdvice()) {
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

// Advice returns a line for each advice about the losses.
func (r *DropsReport) Advice() []string {
	return adviceFor(slices.Concat(lossRates(r.Losses), r.Listeners, r.Unclear), r.Interface, r.untraced)
}

// filterAdvice is the advice to find out by a filter which packets an untraced program drops.
func (r *DropsReport) filterAdvice() []string {
	dropped := slices.ContainsFunc(r.Losses, func(l ExplainedLoss) bool { return l.Stage == drops.XDP && l.Reason == "drop" })
	if !r.untraced || !r.freed || !dropped || r.Filter != "" {
		return nil
	}
	return []string{"drop: a filter tells whether a flow is among them: xdpcap drops -i " + message.ShellWord(r.Interface) + " 'udp port 53'"}
}

func (r *DropsReport) lossTable(numbered *namespaces) *frame.Table {
	t := &frame.Table{Left: 3}
	t.Add("STAGE", "REASON", "WHERE", "DEVICE", "PACKETS", "PACKETS/S")
	add := func(lost bool, stage string, l drops.LossRate) {
		device := l.Device
		if l.Netns != 0 {
			device += fmt.Sprint("@", numbered.number(l.Netns))
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
	for _, kind := range []struct {
		name   string
		losses []drops.LossRate
	}{{"duplicate", r.Duplicates}, {"unclear", r.Unclear}, {"unfiltered", r.Unfiltered}, {"harmless", r.Harmless}} {
		for _, l := range kind.losses {
			add(false, kind.name, l)
		}
	}
	if r.Missed > 0 {
		t.AddLost(true, "missed", "too many causes: use -i", "", "", fmt.Sprint(r.Missed))
	}
	return t
}

// namespaces are the inodes of the network namespaces in a table, in the order of their numbers
// there: @1, @2 and so on.
type namespaces []uint32

// number returns the number of a namespace, and adds a namespace that has none.
func (n *namespaces) number(inode uint32) int {
	i := slices.Index(*n, inode)
	if i < 0 {
		*n, i = append(*n, inode), len(*n)
	}
	return i + 1
}

// write prints a line for each namespace: its number in the table, and the name of its pod or of
// the file by which ip-netns or Docker keeps it.
func (n namespaces) write(w io.Writer, pods map[uint32]string) {
	names := make(map[uint32]string)
	for _, directory := range slices.Backward(frame.NamespaceFiles) { // the first has precedence
		files, _ := filepath.Glob(directory + "/*") // a bad pattern is the only error
		for _, file := range files {
			var info unix.Stat_t
			if unix.Stat(file, &info) == nil {
				names[uint32(info.Ino)] = ": " + file
			}
		}
	}
	for inode, pod := range pods {
		names[inode] = ": pod " + message.Escape(pod)
	}
	for i, inode := range n {
		fmt.Fprintf(w, "@%d is network namespace %d%s\n", i+1, inode, names[inode])
	}
}

// writeRemainder prints the differences from the kernel's counters, with --check.
func (r *DropsReport) writeRemainder(w io.Writer) {
	if r.Remainder == nil {
		return
	}
	line := frame.PageOf(w).Line
	for _, c := range r.Unexplained {
		line("unexplained: %s %d: no tracepoint reports it", c.Counter, c.Packets)
	}
	for _, l := range r.Unconfirmed {
		cause := strings.TrimRight(l.Reason+" "+l.Where, " ")
		line("unconfirmed: %s %d: none of the kernel's counters for it rose", cause, l.Packets)
	}
	if len(r.Unexplained)+len(r.Unconfirmed) == 0 {
		line("the kernel's counters agree")
	}
	counts := make(map[string]uint64)
	for _, l := range r.Unchecked {
		counts[l.Reason] += l.Packets
	}
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprint(reason, " ", counts[reason]))
	}
	if len(parts) > 0 {
		writeWrapped(w, "the kernel has no counter for:", separated(parts))
	}
}
