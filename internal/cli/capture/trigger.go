package capture

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/capture/recorder"
	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/internal/cli/filters"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/lost"
)

// triggerHelp lists the values of --trigger.
const triggerHelp = "a verdict, slower:5us, lost, reason:NAME, retransmit, any of them as drop>1000/s, end, or a filter"

// A triggerNeed is the fact that packets must have for a trigger.
type triggerNeed int

const (
	needNothing triggerNeed = iota
	needVerdict             // packets that leave a program have one
	needRunTime             // packets that leave a traced program have one, and also a verdict
	needReason              // packets that the stack drops have one
	needBytes               // for a filter
)

func (n triggerNeed) String() string {
	return [...]string{"nothing", "verdict", "run time", "reason", "bytes"}[n]
}

// Prefixes of triggers about a traced program's run time and about the kernel's reasons for drops.
const (
	slowerPrefix = "slower:"
	reasonPrefix = "reason:"
)

// parseTrigger parses any trigger except end. of has the options for a filter; a trigger decides
// about each fragment separately, even with --fragments. The names of reasons are those of this
// kernel.
func parseTrigger(text string, of filter.Options) (t recorder.Trigger, need triggerNeed, err error) {
	if strings.TrimSpace(text) == "" {
		return t, needNothing, fmt.Errorf("%q is none of these: %s", text, triggerHelp) // as a filter it is every packet
	}
	t.Name = text
	what, rate, hasRate := strings.Cut(text, ">")
	count, need, err := triggerCount(strings.TrimSpace(what))
	switch {
	case err != nil:
		return t, needNothing, fmt.Errorf("%s: %w", text, err)
	case count != nil && hasRate:
		limit, err := parseRate(strings.TrimSpace(rate))
		if err != nil {
			return t, needNothing, fmt.Errorf("%s: %w", text, err)
		}
		t.Fires = (&rateWindow{limit: limit, count: count}).fires
		return t, need, nil
	case count != nil:
		t.Fires = func(p *capture.Packet, _ *capture.Source) bool { return count(p) > 0 }
		return t, need, nil
	}
	of.Fragments, of.Netmask = false, []byte{0, 0, 0, 0}
	match, err := filters.NewMatcher(text, of)
	if err != nil {
		return t, needNothing, fmt.Errorf("%q is none of these: %s: %v", text, triggerHelp, err)
	}
	t.Fires = func(p *capture.Packet, from *capture.Source) bool {
		return match.Takes(p.Data, p.WireLen, from.Direction() == capture.Out)
	}
	return t, needBytes, nil
}

// triggerCount returns a function that counts events at a packet: a verdict, lost packets before
// it, a long run time, a reason, or retransmissions since the previous packet. It returns nil if
// the text is none of these.
func triggerCount(text string) (count func(*capture.Packet) uint64, need triggerNeed, err error) {
	if text == "lost" {
		return func(p *capture.Packet) uint64 { return p.Dropped }, needNothing, nil
	}
	if names, ok := strings.CutPrefix(text, reasonPrefix); ok {
		wanted, err := capture.ParseReasons(strings.Split(names, ",")...)
		return countIf(func(p *capture.Packet) bool { return isStackDrop(p) && slices.Contains(wanted, p.Reason) }), needReason, err
	}
	if atLeast, ok := strings.CutPrefix(text, slowerPrefix); ok {
		d, err := time.ParseDuration(strings.TrimSpace(atLeast))
		if err != nil || d <= 0 || d > capture.MaxRunTime {
			return nil, needNothing, fmt.Errorf("the time must be above zero and at most %v, with its unit: slower:5us", capture.MaxRunTime)
		}
		return countIf(func(p *capture.Packet) bool { return p.RunTime >= uint32(d) }), needRunTime, nil
	}
	if text == "retransmit" {
		counters := lost.OpenCounters(lost.OfIP)
		read := func() (uint64, error) { return counters.Value("TcpRetransSegs") }
		before, err := read()
		return (&retransmits{read: read, before: before}).since, needNothing, err
	}
	atXDP, atTC, err := frame.ParseVerdicts([]string{text})
	if err == nil {
		return countIf(func(p *capture.Packet) bool { return hasVerdict(p, atXDP, atTC) }), needVerdict, nil
	}
	return nil, needNothing, nil
}

// hasVerdict reports whether a packet has one of these verdicts of XDP, or of tc.
func hasVerdict(p *capture.Packet, atXDP, atTC []capture.Verdict) bool {
	switch p.VerdictKind {
	case capture.XDPVerdict:
		return slices.Contains(atXDP, p.Verdict)
	case capture.TCVerdict:
		return slices.Contains(atTC, p.Verdict)
	}
	return false
}

// isStackDrop reports whether the network stack has dropped a packet. The Reason of a packet that
// was lost at XDP is a number of another kind.
func isStackDrop(p *capture.Packet) bool {
	return p.Location != 0 && p.Verdict != capture.Redirect
}

// retransmits counts segments that TCP of this network namespace has sent again.
type retransmits struct {
	read   func() (uint64, error) // reads the kernel's counter
	before uint64                 // the counter at the last read
	at     int64                  // time of the packet at the last read, in ns
}

// since returns the increase of the counter. It reads the counter at most ten times a second, by
// the packets' own time. If that fails, it returns 0.
func (r *retransmits) since(p *capture.Packet) uint64 {
	if p.Time >= r.at && p.Time-r.at < windowSlice {
		return 0
	}
	r.at = p.Time
	now, err := r.read()
	if err != nil {
		return 0
	}
	more := now - r.before
	r.before = now
	return more
}

// countIf returns a function that counts 1 for a packet for which condition is true.
func countIf(condition func(*capture.Packet) bool) func(*capture.Packet) uint64 {
	return func(p *capture.Packet) uint64 {
		if condition(p) {
			return 1
		}
		return 0
	}
}

// parseRate parses a number of packets per second: 1000/s.
func parseRate(text string) (uint64, error) {
	digits, ok := strings.CutSuffix(text, "/s")
	limit, err := strconv.ParseUint(digits, 10, 63)
	if !ok || err != nil {
		return 0, errors.New("a rate is a number of packets per second: drop>1000/s")
	}
	return limit, nil
}

// A rateWindow counts events within the last second, by the packets' own time.
type rateWindow struct {
	limit uint64                       // events per second
	count func(*capture.Packet) uint64 // events at a packet

	slices [windowSlices]uint64 // a ring of counts, each of a tenth of a second
	sum    uint64               // of slices
	last   int64                // the latest tenth of a second, since the epoch
	above  bool                 // the sum was above the limit at the last packet
}

const (
	windowSlices = 10
	windowSlice  = int64(time.Second) / windowSlices
)

// fires reports whether this packet raises the sum above the limit, where it was not before.
func (w *rateWindow) fires(p *capture.Packet, _ *capture.Source) bool {
	now := p.Time / windowSlice
	if now < w.last || now-w.last >= windowSlices { // the clock was set back, or no packet came for a second
		w.slices, w.sum, w.last = [windowSlices]uint64{}, 0, now
	}
	for w.last < now {
		w.last++
		w.sum -= w.slices[w.last%windowSlices]
		w.slices[w.last%windowSlices] = 0
	}
	n := w.count(p)
	w.slices[now%windowSlices] += n
	w.sum += n
	before := w.above
	w.above = w.sum > w.limit
	return w.above && !before
}
