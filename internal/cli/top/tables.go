package top

import (
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/drops"
	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A kind is a table that the screen can show.
type kind int

const (
	flows kind = iota
	verdicts
	protocols
	sizes
	losses
	losingFlows
	runTimes
	interfaces
	kinds // the number of kinds
)

// A row is a line of a table.
type row struct {
	names   []string // cells on the left
	from    string   // of flows: the two addresses
	to      string
	numbers []string // of run times: cells on the right before the rates
	rate    meter.Rate
	lost    bool     // the packets were lost
	shows   choice   // the packets that Enter shows
	trend   []sample // the last minute, the newest last
}

// key identifies a row from second to second.
func (r *row) key() string {
	return strings.Join(append(slices.Clone(r.names), r.from, r.to), "\x00")
}

// A choice selects the packets of a row.
type choice struct {
	interfaces []string // names, or everyInterface; empty = no interface: Enter shows an error
	filter     string   // a pcap-filter, in addition to the user's
	verdict    *xdp.Verdict
	loss       *drops.Loss
}

// everyInterface selects all interfaces whose counters top shows.
var everyInterface = []string{""}

// A table has the rows of one kind.
type table struct {
	names    []string // titles of the cells on the left
	isFlows  bool     // with the columns FROM and TO
	numbers  []string // further titles on the right
	counted  string   // the title of the counts; "" = PACKETS
	noBytes  bool     // bytes are not counted
	rows     []row
	all      []row  // with those beyond mostRows, which another order shows; nil = not cut yet
	more     bool   // not all rows are in the table, or not all are shown
	whyEmpty string // "" = no packet was counted yet
}

// mostRows bounds the flows of each interface and of each stage in tables. It also bounds the rows
// that the model shows of a table, after it has sorted them.
const mostRows = 1000

// tables returns all tables of the readings.
func (r *readings) tables() (all [kinds]table) {
	all[flows] = r.flowTable()
	all[verdicts] = table{names: []string{"VERDICT"}}
	all[protocols] = table{names: []string{"FAMILY", "PROTOCOL"}}
	all[sizes] = table{names: []string{"SIZE"}}
	all[losses] = r.lossTable()
	all[losingFlows] = r.losingFlowTable()
	all[runTimes] = table{names: []string{"PROGRAM OF", "VERDICT"}, numbers: []string{"MEAN", "P50", "P99"}, counted: "RUNS", noBytes: true}
	all[interfaces] = table{names: []string{"INTERFACE", "COUNTED"}}
	for _, one := range r.interfaces {
		all[verdicts].merge(one.verdictRows())
		all[protocols].merge(protocolRows(one.in), protocolRows(one.out))
		all[sizes].merge(sizeRows(one.in), sizeRows(one.out))
		all[runTimes].merge(one.runTimeRows())
	}
	r.addInterfaces(&all[interfaces])
	for k := range all {
		all[k].whyEmpty = r.whyEmpty[k]
	}
	return all
}

// merge adds rows. If the table already has a row with the key of a new one, that row gets the sum
// of both rates.
func (t *table) merge(several ...[]row) {
	for _, more := range several {
		for _, one := range more {
			key := one.key()
			at := slices.IndexFunc(t.rows, func(r row) bool { return r.key() == key })
			if at < 0 {
				t.rows = append(t.rows, one)
				continue
			}
			t.rows[at].rate.Add(one.rate)
		}
	}
}

func (r *readings) flowTable() table {
	t := table{isFlows: true, names: []string{"PROTO"}}
	hasInterfaces := len(r.interfaces) > 1
	hasVerdicts := slices.ContainsFunc(r.interfaces, func(one *reading) bool { return one.traced })
	if hasVerdicts {
		t.names = append(t.names, "VERDICT")
	}
	if hasInterfaces {
		t.names = append(t.names, "INTERFACE")
	}
	for _, one := range r.interfaces {
		all := meter.TopConversations(mostRows, one.in, one.out)
		if len(all) == mostRows {
			t.more = true
		}
		for _, c := range all {
			f := row{
				names: []string{c.Flow.Class.Protocol()}, rate: c.Rate,
				from: endpoint(c.Flow.Source), to: endpoint(c.Flow.Destination),
				shows: choice{interfaces: []string{one.name}, filter: flowFilter(c.Flow)},
			}
			if hasVerdicts {
				verdict := ""
				if c.Verdict != meter.NoVerdict {
					verdict, f.lost = c.Verdict.SlotName(), xdp.Loses(c.Verdict)
				}
				f.names = append(f.names, verdict)
			}
			if hasInterfaces {
				f.names = append(f.names, one.name)
			}
			t.rows = append(t.rows, f)
		}
	}
	return t
}

func (r *reading) verdictRows() (rows []row) {
	before, now := r.verdicts.Before.Total(), r.verdicts.Now.Total()
	for slot := range now {
		v := xdp.Verdict(slot)
		if rate := meter.NewRate(before[slot], now[slot], r.verdicts.Took); rate.Packets > 0 {
			rows = append(rows, row{names: []string{v.SlotName()}, rate: rate, lost: xdp.Loses(v), shows: choice{interfaces: everyInterface, verdict: &v}})
		}
	}
	return rows
}

func protocolRows(i meter.Interval[meter.ProtocolCounts]) (rows []row) {
	for _, class := range slices.Sorted(maps.Keys(i.Now.Classes)) {
		if rate := meter.NewRate(i.Before.Class(class), i.Now.Class(class), i.Took); rate.Packets > 0 {
			rows = append(rows, row{names: []string{class.Family(), class.Protocol()}, rate: rate,
				shows: choice{interfaces: everyInterface, filter: classFilter(class)}})
		}
	}
	return rows
}

func sizeRows(i meter.Interval[meter.ProtocolCounts]) (rows []row) {
	if i.Took == 0 {
		return nil
	}
	for k, name := range meter.SizeNames {
		from, to, _ := strings.Cut(name, "-") // the last range, "1519-", has no upper bound
		filter := "greater " + from
		if to != "" {
			filter += " and less " + to
		}
		rows = append(rows, row{names: []string{name}, rate: meter.NewRate(i.Before.Sizes[k], i.Now.Sizes[k], i.Took),
			shows: choice{interfaces: everyInterface, filter: filter}})
	}
	return rows
}

func (r *readings) lossTable() table {
	t := table{names: []string{"STAGE", "REASON", "WHERE", "DEVICE"}, noBytes: true}
	for _, l := range drops.LossRates(r.drops.Before.Losses, r.drops.Now.Losses, r.drops.Took) {
		t.rows = append(t.rows, row{names: []string{string(l.Stage), message.Escape(l.Reason), message.Escape(l.Where), message.Escape(l.Device)}, rate: l.Rate, lost: true,
			shows: choice{interfaces: everyInterface, loss: &l.Loss}})
	}
	return t
}

// losingFlowTable has the flows that lost most packets at each stage. Losses without a flow are
// only in the table of losses.
func (r *readings) losingFlowTable() table {
	t := table{isFlows: true, names: []string{"PROTO", "STAGE", "REASON"}}
	for _, s := range drops.TopFlows(r.drops, mostRows) {
		for _, f := range s.Top {
			t.rows = append(t.rows, row{
				names: []string{f.Flow.Class.Protocol(), string(s.Stage), message.Escape(f.Reason)}, rate: f.Rate, lost: true,
				from: endpoint(f.Flow.Source), to: endpoint(f.Flow.Destination),
				shows: choice{interfaces: everyInterface, filter: flowFilter(f.Flow), loss: &drops.Loss{Stage: s.Stage, Reason: f.Reason}},
			})
		}
	}
	return t
}

func (r *reading) runTimeRows() (rows []row) {
	// before and now are the runs since the counters were opened, at both ends of the interval.
	add := func(verdict string, before, now uint64, took time.Duration, times ...time.Duration) {
		one := row{names: []string{r.name, verdict}, shows: choice{interfaces: []string{r.name}}}
		one.rate = meter.Rate{Packets: now, PacketsPerSecond: meter.PerSecond(before, now, took)}
		for _, d := range times {
			one.numbers = append(one.numbers, brief(d))
		}
		rows = append(rows, one)
	}
	lately := r.latency.Now.Since(&r.latency.Before)
	for slot := range r.latency.Now.Verdicts {
		all, h := &r.latency.Now.Verdicts[slot], &lately.Verdicts[slot]
		if all.Count > 0 {
			add(xdp.Verdict(slot).SlotName(), r.latency.Before.Verdicts[slot].Count, all.Count, r.latency.Took, h.Mean(), h.Quantile(0.5), h.Quantile(0.99))
		}
	}
	if i := r.runtime; i.Now.Runs > 0 {
		add("all", i.Before.Runs, i.Now.Runs, i.Took, i.Now.Mean(i.Before))
	}
	return rows
}

// brief formats a run time in a few columns; 0 = there was none.
func brief(d time.Duration) string {
	switch {
	case d == 0:
		return "-"
	case d < time.Microsecond:
		return fmt.Sprintf("%d ns", d.Nanoseconds())
	case d < time.Millisecond:
		return fmt.Sprintf("%.2f us", float64(d)/float64(time.Microsecond))
	}
	return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
}

// addInterfaces adds a row for each interface. If there are many, the idle ones share a row.
func (r *readings) addInterfaces(t *table) {
	const few = 8
	idle := 0
	for _, one := range r.interfaces {
		rate := one.total()
		if rate.Packets == 0 && len(r.interfaces) > few {
			idle++
			continue
		}
		t.rows = append(t.rows, row{names: []string{one.name, one.how}, rate: rate, shows: choice{interfaces: []string{one.name}}})
	}
	if idle > 0 {
		t.rows = append(t.rows, row{names: []string{fmt.Sprintf("%d idle", idle), "no packet yet"}})
	}
}

// flowFilter matches both directions of a flow, which is of IPv4 or IPv6, so that it has a
// classFilter.
func flowFilter(f meter.Flow) string {
	end := func(side string, at netip.AddrPort) string {
		text := side + " host " + at.Addr().String()
		if at.Port() != 0 {
			text += fmt.Sprintf(" and %s port %d", side, at.Port())
		}
		return text
	}
	from, to := f.Source, f.Destination
	return fmt.Sprintf("%s and ((%s and %s) or (%s and %s))", classFilter(f.Class),
		end("src", from), end("dst", to), end("src", to), end("dst", from))
}

// classFilter matches packets of a class; "" = there is no such filter.
func classFilter(c meter.Class) string {
	switch {
	case c.Family() == "ipv4":
		return fmt.Sprintf("ip proto %d", c.Number())
	case c.Family() == "ipv6":
		return fmt.Sprintf("ip6 proto %d", c.Number())
	case c.Number() >= 0x600:
		return fmt.Sprintf("ether proto %d", c.Number())
	}
	return ""
}

// endpoint formats a whole address and port. The view shortens it to the width of the terminal.
func endpoint(at netip.AddrPort) string {
	return frame.Endpoint(at.Addr().String(), at.Port(), math.MaxInt)
}
