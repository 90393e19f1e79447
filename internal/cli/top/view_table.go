package top

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
)

// A column is one of a table on the screen.
type column struct {
	title   string
	right   bool // aligned to the right
	address bool // is cut in its middle
	width   int
	cell    func(r *row) string
}

// widths of the columns that are drawn.
const (
	gap       = 2
	leastBar  = 6
	mostBar   = 20
	leastName = 8
	leastLine = 8 // of a trend
)

// tableLines are the titles and rows of the table that is shown, around the cursor.
func (m *model) tableLines(room int) (all []line) {
	t := &m.shown[m.kind]
	columns, bar, trend := m.layout(t)
	titles := ""
	for i := range columns {
		titles += columns[i].text(columns[i].title)
	}
	if bar > 0 {
		titles += fmt.Sprintf("%-*s", bar+gap, "SHARE")
	}
	if trend > 0 {
		titles += "TREND"
	}
	all = append(all, line{{strings.TrimRight(titles, " "), bold}})
	if len(t.rows) == 0 {
		return append(all, line{{cmp.Or(t.whyEmpty, "nothing yet"), faint}})
	}
	by := m.orderOf(t)
	var sum float64
	for i := range t.rows {
		sum += by.value(t.rows[i].rate)
	}
	cursor := m.cursor[m.kind]
	first := max(0, cursor-max(1, room-1)+1)
	for i := first; i < min(len(t.rows), first+room-1); i++ {
		r := &t.rows[i]
		cells := ""
		for c := range columns {
			cells += columns[c].text(columns[c].cell(r))
		}
		if trend == 0 {
			cells = strings.TrimSuffix(cells, strings.Repeat(" ", gap))
		}
		look := plain
		switch {
		case i == cursor:
			look = reverse
		case r.lost:
			look = bad
		}
		drawn := line{{cells, look}}
		if bar > 0 {
			share := 0.0
			if sum > 0 {
				share = by.value(r.rate) / sum
			}
			drawn = append(drawn, span{blocks(share, bar) + strings.Repeat(" ", gap), look})
		}
		if trend > 0 {
			drawn = append(drawn, span{spark(r.trend, by, trend), good})
		}
		all = append(all, drawn)
	}
	return all
}

// text is a cell with the gap after it.
func (c *column) text(cell string) string {
	if c.address {
		cell = frame.ShortenMiddle(cell, c.width)
	}
	cell = frame.Shorten(cell, c.width)
	if c.right {
		return fmt.Sprintf("%*s%*s", c.width, cell, gap, "")
	}
	return fmt.Sprintf("%-*s%*s", c.width, cell, gap, "")
}

// layout chooses the columns that the window has room for, and the widths of bars and trends. The
// number by which the rows are sorted is always shown; names are cut before it is.
func (m *model) layout(t *table) (columns []column, bar, trend int) {
	names, numbers := t.nameColumns(), t.numberColumns(m.orderOf(t))
	for i := range names {
		names[i].fit(t)
	}
	for i := range numbers {
		numbers[i].fit(t)
	}
	wide := func(columns []column) (sum int) {
		for i := range columns {
			sum += columns[i].width + gap
		}
		return sum
	}
	fixed := len(t.numbers) + 1 // of run times, and what the rows are sorted by
	rest := m.width - wide(names)
	for fixed < len(numbers) && rest-wide(numbers[:fixed+1]) >= leastBar+gap+leastLine {
		fixed++
	}
	columns = append(names, numbers[:fixed]...)
	rest = m.width - wide(columns)
	// The widest names give way: to bars and trends as long as an address of IPv4 with a port has
	// room, and to numbers always.
	rest += shorten(columns[:len(names)], leastBar+gap+leastLine-rest, 21)
	rest += shorten(columns[:len(names)], -gap-rest, leastName)
	switch {
	case rest >= leastBar+gap+leastLine:
		bar = min(mostBar, max(leastBar, rest/3))
		trend = min(minute, rest-bar-gap)
	case rest >= leastLine:
		trend = rest
	}
	return columns, bar, trend
}

// shorten makes columns narrower, the widest first, by this many in all as long as that one is
// wider than least. It returns by how many.
func shorten(columns []column, by, least int) (done int) {
	for ; done < by; done++ {
		widest := slices.MaxFunc(columns, func(a, b column) int { return cmp.Compare(a.width, b.width) }).width
		if widest <= least {
			break
		}
		columns[slices.IndexFunc(columns, func(c column) bool { return c.width == widest })].width--
	}
	return done
}

// fit makes a column as wide as its widest cell.
func (c *column) fit(t *table) {
	c.width = max(c.width, utf8.RuneCountInString(c.title))
	for i := range t.rows {
		c.width = max(c.width, utf8.RuneCountInString(c.cell(&t.rows[i])))
	}
}

func (t *table) nameColumns() (columns []column) {
	if t.isFlows {
		columns = append(columns,
			column{title: "FROM", address: true, cell: func(r *row) string { return r.from }},
			column{title: "TO", address: true, cell: func(r *row) string { return r.to }})
	}
	for i, title := range t.names {
		if len(t.rows) > 0 && !slices.ContainsFunc(t.rows, func(r row) bool { return r.names[i] != "" }) {
			continue // such as DEVICE, of one interface
		}
		columns = append(columns, column{title: title, cell: func(r *row) string { return r.names[i] }})
	}
	return columns
}

// numberColumns are all numbers of a table: those that it always shows, then what it is sorted by,
// then the others.
func (t *table) numberColumns(by order) (columns []column) {
	for i, title := range t.numbers {
		columns = append(columns, column{title: title, right: true, width: 7, cell: func(r *row) string {
			if i >= len(r.numbers) {
				return "-"
			}
			return r.numbers[i]
		}})
	}
	what := cmp.Or(t.what, "PACKETS")
	titles := [orders]string{"BIT/S", what + "/S", "BYTES", what}
	for _, o := range []order{by, byBits, byPacketRate, byBytes, byPackets} {
		if t.noBytes && o != o.inPackets() || slices.ContainsFunc(columns, func(c column) bool { return c.title == titles[o] }) {
			continue
		}
		columns = append(columns, column{title: titles[o], right: true, width: 7, cell: func(r *row) string {
			return strings.TrimSuffix(frame.Scaled(o.value(r.rate)), " ")
		}})
	}
	return columns
}

// blocks is a bar of a share: as many columns as are given are the whole.
func blocks(share float64, columns int) string {
	return frame.Blocks(math.Round(math.Min(1, share)*float64(columns*8)), columns)
}

// spark draws the last samples of a trend. The newest is on the right.
func spark(trend []sample, by order, columns int) string {
	values := make([]float64, columns)
	trend = trend[max(0, len(trend)-columns):]
	for i, s := range trend {
		values[columns-len(trend)+i] = by.of(s)
	}
	return frame.Spark(values, true)
}
