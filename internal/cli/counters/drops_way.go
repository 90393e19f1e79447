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

// A Way has the packets that the filter takes, on their way from the card to a socket.
type Way struct {
	Stages []WayStage `json:"stages"`
	Notes  []string   `json:"notes,omitempty"` // what is not counted, and why
}

// A WayStage is a stage on the way. Without a key, a rate is not counted.
type WayStage struct {
	Stage     drops.Stage      `json:"stage"`
	Came      *meter.Rate      `json:"came,omitempty"`
	Lost      *meter.Rate      `json:"lost,omitempty"`
	Elsewhere *meter.Rate      `json:"elsewhere,omitempty"` // neither lost nor at the next stage
	Losses    []drops.LossRate `json:"losses,omitempty"`    // of lost, by packets
}

func newWay(i dropsInterval) *Way {
	if i.Now.Way == nil {
		return nil
	}
	w := &Way{Notes: i.Now.Way.Notes}
	for _, now := range i.Now.Way.Stops {
		var before drops.Stop
		if i.Before.Way != nil {
			if n := slices.IndexFunc(i.Before.Way.Stops, func(s drops.Stop) bool { return s.Stage == now.Stage }); n >= 0 {
				before = i.Before.Way.Stops[n]
			}
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

// write draws the way, with what each stage lost below it:
//
//	card -- 40/s --> stack -- 0/s --> socket
//	                 40/s lost        0/s lost
//	                 NETFILTER_DROP
func (w *Way) write(out io.Writer) {
	if w == nil {
		return
	}
	lines := []string{""}
	for n, s := range w.Stages {
		cell := s.cell()
		width := 0
		for _, text := range cell {
			width = max(width, utf8.RuneCountInString(text)+2)
		}
		for len(lines) < 1+len(cell) {
			lines = append(lines, "")
		}
		at := utf8.RuneCountInString(lines[0])
		head := string(s.Stage)
		if n+1 < len(w.Stages) {
			arrow := fmt.Sprintf(" -- %s --> ", perSecond(w.Stages[n+1].Came))
			if missing := width - len(head) - len(arrow); missing > 0 {
				arrow = strings.Replace(arrow, "--> ", strings.Repeat("-", missing)+"--> ", 1)
			}
			head += arrow
		}
		for i, text := range append([]string{head}, cell...) {
			lines[i] += strings.Repeat(" ", max(at-utf8.RuneCountInString(lines[i]), 0)) + text
		}
	}
	for _, line := range append(lines, "") {
		fmt.Fprintln(out, line)
	}
	for _, note := range w.Notes {
		frame.PageOf(out).Line("%s", note)
	}
}

// wayReasonWidth lets the picture fit into 80 columns.
const wayReasonWidth = 19

// cell is what the picture has below a stage.
func (s *WayStage) cell() (lines []string) {
	switch {
	case s.Lost == nil:
		lines = append(lines, "? lost")
	case s.Lost.Packets == 0:
		lines = append(lines, "0 lost")
	default:
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
