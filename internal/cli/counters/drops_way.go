package counters

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/drops"
	"github.com/xdpcap/xdpcap/internal/meter"
)

// A Way counts the packets that match the filter at each stage from the card to a socket.
type Way struct {
	Stages []WayStage `json:"stages"`
	Notes  []string   `json:"notes,omitempty"` // why stages are not counted
}

// A WayStage is a stage on the way. A rate that is not counted is nil.
type WayStage struct {
	Stage     drops.Stage      `json:"stage"`
	Came      *meter.Rate      `json:"came,omitempty"`
	Lost      *meter.Rate      `json:"lost,omitempty"`
	Elsewhere *meter.Rate      `json:"elsewhere,omitempty"` // neither lost nor at the next stage
	Losses    []drops.LossRate `json:"losses,omitempty"`    // the reasons, the highest rate first
}

func newWay(i dropsInterval) *Way {
	if i.Now.Way == nil {
		return nil
	}
	rate := func(before, now *meter.Tally) *meter.Rate {
		if now == nil {
			return nil
		}
		if before == nil {
			before = new(meter.Tally)
		}
		r := meter.NewRate(*before, *now, i.Took)
		return &r
	}
	was := make(map[drops.Stage]drops.Stop)
	if i.Before.Way != nil {
		for _, stop := range i.Before.Way.Stops {
			was[stop.Stage] = stop
		}
	}
	w := &Way{Notes: i.Now.Way.Notes}
	for _, now := range i.Now.Way.Stops {
		before := was[now.Stage]
		s := WayStage{Stage: now.Stage, Came: rate(before.Came, now.Came), Elsewhere: rate(before.Elsewhere, now.Elsewhere)}
		if now.Losses != nil {
			lostBefore, lost := before.Lost(), now.Lost()
			s.Lost = rate(&lostBefore, &lost)
			s.Losses = drops.LossRates(before.Losses, now.Losses, i.Took)
			slices.SortStableFunc(s.Losses, func(a, b drops.LossRate) int {
				return cmp.Or(cmp.Compare(b.PacketsPerSecond, a.PacketsPerSecond), cmp.Compare(b.Packets, a.Packets))
			})
		}
		w.Stages = append(w.Stages, s)
	}
	return w
}

// write draws the way, with the losses of each stage below it:
//
//	card -- 40/s --> stack -- 0/s --> socket
//	0 lost           40/s lost        0 lost
//	                 NETFILTER_DROP
func (w *Way) write(out io.Writer) {
	if w == nil {
		return
	}
	lines := []string{""}
	for n, s := range w.Stages {
		below := s.linesBelow()
		needed := 0 // columns until the next stage, so that it is right of all lines below this one
		for _, text := range below {
			needed = max(needed, utf8.RuneCountInString(text)+len("  "))
		}
		head := string(s.Stage)
		if n+1 < len(w.Stages) { // an arrow with the packets that come to the next stage
			arrow := fmt.Sprintf(" -- %s --> ", perSecond(w.Stages[n+1].Came))
			if missing := needed - len(head) - len(arrow); missing > 0 {
				arrow = strings.Replace(arrow, "--> ", strings.Repeat("-", missing)+"--> ", 1)
			}
			head += arrow
		}
		column := utf8.RuneCountInString(lines[0]) // where this stage begins
		for i, text := range append([]string{head}, below...) {
			if i == len(lines) {
				lines = append(lines, "")
			}
			lines[i] += strings.Repeat(" ", max(column-utf8.RuneCountInString(lines[i]), 0)) + text
		}
	}
	for _, line := range append(lines, "") {
		fmt.Fprintln(out, line)
	}
	for _, note := range w.Notes {
		frame.PageOf(out).Line("%s", note)
	}
}

// wayReasonWidth is the most columns of a reason, so that the picture fits into 80 columns.
const wayReasonWidth = 19

// linesBelow are the lines of the picture below a stage.
func (s *WayStage) linesBelow() (lines []string) {
	switch {
	case s.Lost == nil:
		lines = append(lines, "? lost")
	case s.Lost.Packets == 0: // so far; a rate is that of the last interval
		lines = append(lines, "0 lost")
	default: // Losses is not empty, and the first one has the highest rate
		lines = append(lines, perSecond(s.Lost)+" lost", frame.Shorten(s.Losses[0].Reason, wayReasonWidth))
	}
	if s.Elsewhere != nil && s.Elsewhere.PacketsPerSecond > 0 {
		lines = append(lines, perSecond(s.Elsewhere)+" forwarded", "or elsewhere")
	}
	return lines
}

// perSecond is a rate in the picture; "?" = it is not counted.
func perSecond(r *meter.Rate) string {
	if r == nil {
		return "?"
	}
	return strings.ReplaceAll(frame.Scaled(r.PacketsPerSecond), " ", "") + "/s"
}
