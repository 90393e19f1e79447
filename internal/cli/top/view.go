package top

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
)

// A style is the look of a part of a line.
type style int

const (
	plain style = iota
	bold
	reverse // the selected row, and the table that is shown
	faint
	bad // lost, or an error
	good
)

// A span is a part of a line with one style.
type span struct {
	text  string
	style style
}

// A line is a line of the screen.
type line []span

// lines are the contents of the screen: as many lines as it has, none of them wider.
func (m *model) lines() (all []line) {
	all = []line{m.headLine(), m.tabLine()}
	room := m.height - 3
	switch {
	case m.help:
		for _, k := range keyHelp {
			all = append(all, line{{fmt.Sprintf("  %-22s", k[0]), bold}, {k[1], plain}})
		}
	case m.watch != nil:
		all = append(all, m.watchLines(room)...)
	default:
		all = append(all, m.tableLines(room)...)
	}
	all = all[:max(0, min(len(all), m.height-1))]
	for len(all) < m.height-1 {
		all = append(all, nil)
	}
	all = append(all, m.statusLine())
	for i := range all {
		all[i] = all[i].cut(m.width)
	}
	return all
}

// cut shortens a line that is too wide.
func (l line) cut(columns int) line {
	for i, s := range l {
		n := utf8.RuneCountInString(s.text)
		if n > columns {
			l[i].text = frame.Shorten(s.text, columns)
			return l[:i+1]
		}
		columns -= n
	}
	return l
}

// headLine shows where packets are counted, and on the right their rates and losses.
func (m *model) headLine() line {
	h := &m.head
	if h.at.IsZero() {
		return line{{h.where, bold}}
	}
	badIf := func(is bool) style {
		if is {
			return bad
		}
		return plain
	}
	right := line{{frame.Scaled(h.rate.PacketsPerSecond) + "pps  " + frame.Scaled(h.rate.BitsPerSecond) + "bit/s", bold}}
	if h.dropped >= 0 {
		right = append(right, span{fmt.Sprintf("  drop %.1f %%", 100*h.dropped), badIf(h.dropped > 0)})
	}
	lost := "  lost " + strings.TrimSpace(frame.Scaled(h.lost.PacketsPerSecond)) + "/s"
	right = append(right, span{lost, badIf(h.lost.PacketsPerSecond > 0)}, span{"  " + h.at.Format("15:04:05"), plain})
	return m.justify(line{{h.where, bold}}, right)
}

// tabLine shows the names of the tables, and on the right the trend of all packets.
func (m *model) tabLine() line {
	var tabs line
	for _, tab := range kindKeys {
		if tab.name == "" {
			continue
		}
		look := plain
		if tab.key == kindKeys[m.kind].key {
			look = reverse
		}
		tabs = append(tabs, span{tab.name, look}, span{" ", plain})
	}
	tabs[len(tabs)-1].text = ""
	if room := min(minute, m.width-width(tabs)-2); room >= leastTrend {
		return m.justify(tabs, line{{spark(m.head.trend, m.order, room), good}})
	}
	return tabs
}

// justify puts one line to the left and one to the right. If there is no room for both, it cuts the
// left one.
func (m *model) justify(left, right line) line {
	room := m.width - width(right)
	left = left.cut(max(0, room-2))
	return append(append(left, span{strings.Repeat(" ", max(0, room-width(left))), plain}), right...)
}

func width(l line) (columns int) {
	for _, s := range l {
		columns += utf8.RuneCountInString(s.text)
	}
	return columns
}

// statusLine is the last line: the filter being typed in, a message, or the order and the filter.
func (m *model) statusLine() line {
	switch {
	case m.typing:
		return line{{"filter: ", bold}, {string(m.typed), plain}, {" ", reverse}, {"  Enter: count what matches  Esc: back", faint}}
	case m.message != "":
		return line{{m.message, bad}}
	case m.watch != nil:
		return m.justify(line{{m.watch.state, plain}}, line{{"w write  Esc back", faint}})
	}
	t := &m.shown[m.kind]
	text := "by " + orderNames[m.orderOf(t)]
	if m.kind == sizes {
		text = "by size"
	}
	if t.more {
		text = fmt.Sprintf("the first %d %s", len(t.rows), text)
	}
	left := line{{text, plain}}
	if m.filter != "" {
		left = append(left, span{"  filter: " + m.filter, bold})
	}
	right := line{{"? keys  q leave", faint}}
	if m.paused {
		right = append(line{{"paused", reverse}, {"  ", plain}}, right...)
	}
	return m.justify(left, right)
}

// watchLines are the last packets of a row, below its title.
func (m *model) watchLines(room int) (all []line) {
	all = append(all, line{{m.watch.title, bold}})
	shown := m.watch.lines
	for _, text := range shown[max(0, len(shown)-(room-1)):] {
		all = append(all, line{{text, plain}})
	}
	return all
}
