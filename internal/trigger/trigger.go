// Package trigger reads what makes a recorder write its packets.
package trigger

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/capture/recorder"
	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/internal/matcher"
)

// Help is what --trigger takes.
const Help = "a verdict, lost, either of them as drop>1000/s, end, or a filter"

// rateTrigger is the form of a trigger that fires when something happens too often.
var rateTrigger = regexp.MustCompile(`^\s*(\w+)\s*>\s*(.*?)\s*$`)

// Parse reads a trigger that looks at packets. It needs verdicts if it is about one.
func Parse(text string, vlanAware bool) (t recorder.Trigger, needsVerdict bool, err error) {
	if strings.TrimSpace(text) == "" {
		return t, false, fmt.Errorf("%q is none of these: %s", text, Help) // as a filter it is every packet
	}
	t.Name = text
	what, rate := strings.TrimSpace(text), ""
	if m := rateTrigger.FindStringSubmatch(text); m != nil {
		what, rate = m[1], m[2]
	}
	var count func(*capture.Packet) uint64 // how often it happened with a packet
	if v, failed := capture.ParseVerdict(what); failed == nil {
		needsVerdict = true
		count = func(p *capture.Packet) uint64 {
			if p.Verdict == v {
				return 1
			}
			return 0
		}
	} else if what == "lost" {
		count = func(p *capture.Packet) uint64 { return p.Dropped }
	}
	switch {
	case count != nil && rate != "":
		limit, err := parseRate(rate)
		if err != nil {
			return t, false, fmt.Errorf("%s: %w", text, err)
		}
		t.Fires = (&rateWindow{limit: limit, count: count}).fires
		return t, needsVerdict, nil
	case count != nil:
		t.Fires = func(p *capture.Packet, _ *capture.Source) bool { return count(p) > 0 }
		return t, needsVerdict, nil
	}
	match, err := matcher.New(text, filter.Options{Netmask: []byte{0, 0, 0, 0}, VLANAware: vlanAware})
	if err != nil {
		return t, false, fmt.Errorf("%q is none of these: %s: %v", text, Help, err)
	}
	t.Fires = func(p *capture.Packet, from *capture.Source) bool {
		return match.Takes(p.Data, p.WireLen, from.Direction() == capture.Out)
	}
	return t, false, nil
}

// parseRate reads a number of packets per second: 1000/s.
func parseRate(text string) (uint64, error) {
	digits, ok := strings.CutSuffix(text, "/s")
	limit, err := strconv.ParseUint(digits, 10, 63)
	if !ok || err != nil {
		return 0, errors.New("a rate is a number of packets per second: drop>1000/s")
	}
	return limit, nil
}

// A rateWindow counts what happened within the last second, by the packets' own time.
type rateWindow struct {
	limit uint64
	count func(*capture.Packet) uint64

	slices [windowSlices]uint64 // of a tenth of a second each
	sum    uint64
	last   int64 // the number of the slice that is counted in
	above  bool
}

const (
	windowSlices = 10
	windowSlice  = int64(time.Second) / windowSlices
)

// fires tells whether a packet is the first one with which more than the limit have happened. It
// does so again after there were fewer.
func (w *rateWindow) fires(p *capture.Packet, _ *capture.Source) bool {
	now := p.Time / windowSlice
	if now < w.last || now-w.last >= windowSlices { // the clock was set back, or nothing came for long
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
