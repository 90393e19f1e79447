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

// A column is a column of a table on the screen.
type column struct {
	title   string
	right   bool // aligned to the right
	address bool // cut in the middle
	width   int  // characters
	cell    func(r *row) string
}

// Widths, in characters.
const (
	gap          = 2 // between columns
	leastBar     = 6
	mostBar      = 20
	leastName    = 8
	leastAddress = len("255.255.255.255:65535") // of a name that is cut for bars and trends
	leastTrend   = 8
)

// tableLines are the titles and rows of the table on the screen, around the cursor.
func (m *model) tableLines(room int) (all []line) {
	t := &m.shown[m.kind]
	l := m.layout(t)
	all = append(all, line{{l.titles(), bold}})
	if len(t.rows) == 0 {
		return append(all, line{{cmp.Or(t.whyEmpty, "nothing yet"), faint}})
	}
	by := m.orderOf(t)
	var sum float64
	for i := range t.rows {
		sum += by.value(t.rows[i].rate)
	}
	cursor := m.cursor[m.kind]
	// The titles take one of the lines. If the cursor is below the others, the table is scrolled so
	// far that its row is the last one.
	first := max(0, cursor-max(1, room-1)+1)
	for i := first; i < min(len(t.rows), first+room-1); i++ {
		r := &t.rows[i]
		look := plain
		switch {
		case i == cursor:
			look = reverse
		case r.lost:
			look = bad
		}
		share := 0.0
		if sum > 0 {
			share = by.value(r.rate) / sum
		}
		all = append(all, l.row(r, look, share, by))
	}
	return all
}

// A layout has the columns of a table that fit into the window, and the widths of bars and trends;
// 0 = there are none. There may be trends without bars, but no bars without trends.
type layout struct {
	columns    []column
	bar, trend int
}

func (l *layout) titles() string {
	text := ""
	for i := range l.columns {
		text += l.columns[i].text(l.columns[i].title)
	}
	if l.bar > 0 {
		text += fmt.Sprintf("%-*s", l.bar+gap, "SHARE")
	}
	if l.trend > 0 {
		text += "TREND"
	}
	return strings.TrimRight(text, " ")
}

// row is the line of a row, with its share of the sum of all rows.
func (l *layout) row(r *row, look style, share float64, by order) line {
	cells := ""
	for i := range l.columns {
		cells += l.columns[i].text(l.columns[i].cell(r))
	}
	space := strings.Repeat(" ", gap)
	if l.trend == 0 {
		cells = strings.TrimSuffix(cells, space)
	}
	drawn := line{{cells, look}}
	if l.bar > 0 {
		drawn = append(drawn, span{blocks(share, l.bar) + space, look})
	}
	if l.trend > 0 {
		drawn = append(drawn, span{spark(r.trend, by, l.trend), good})
	}
	return drawn
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

// layout chooses the columns, bars and trends of a table. The number by which the rows are sorted
// always has a column: names are cut first.
func (m *model) layout(t *table) (l layout) {
	names, numbers := t.nameColumns(), t.numberColumns(m.orderOf(t))
	for i := range names {
		names[i].fit(t)
	}
	for i := range numbers {
		numbers[i].fit(t)
	}
	widthOf := func(columns []column) (sum int) {
		for i := range columns {
			sum += columns[i].width + gap
		}
		return sum
	}
	const barAndTrend = leastBar + gap + leastTrend
	shown := len(t.numbers) + 1 // columns of numbers: of run times, of the order, and others below
	rest := m.width - widthOf(names)
	for shown < len(numbers) && rest-widthOf(numbers[:shown+1]) >= barAndTrend {
		shown++
	}
	l.columns = append(names, numbers[:shown]...)
	rest = m.width - widthOf(l.columns)
	// The widest names are shortened: for bars and trends to leastAddress, for numbers further. If
	// nothing follows the last column, the gap after it needs no room.
	rest += shorten(l.columns[:len(names)], barAndTrend-rest, leastAddress)
	rest += shorten(l.columns[:len(names)], -gap-rest, leastName)
	switch {
	case rest >= barAndTrend:
		l.bar = min(mostBar, max(leastBar, rest/3))
		l.trend = min(minute, rest-l.bar-gap)
	case rest >= leastTrend:
		l.trend = rest
	}
	return l
}

// shorten makes columns narrower, the widest first and none below least, by a number of characters
// in total. It returns the number that it has reached.
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
			continue // such as DEVICE, if one interface is watched
		}
		columns = append(columns, column{title: title, cell: func(r *row) string { return r.names[i] }})
	}
	return columns
}

// numberColumns are all columns of numbers in the order of their precedence: those of run times,
// then the one by which the rows are sorted, then the others.
func (t *table) numberColumns(by order) (columns []column) {
	for i, title := range t.numbers {
		columns = append(columns, column{title: title, right: true, width: 7, cell: func(r *row) string {
			if i >= len(r.numbers) {
				return "-"
			}
			return r.numbers[i]
		}})
	}
	counted := cmp.Or(t.counted, "PACKETS")
	titles := [orders]string{"BIT/S", counted + "/S", "BYTES", counted}
	// Skips orders of bytes in a table that does not count them, and `by` when it comes again.
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

// blocks is a bar of a share, 0 to 1, of this many columns.
func blocks(share float64, columns int) string {
	return frame.Blocks(math.Round(math.Min(1, share)*float64(columns*8)), columns)
}

// spark draws the last samples of a trend. The newest is on the right.
func spark(trend []sample, by order, columns int) string {
	values := make([]float64, columns)
	trend = trend[max(0, len(trend)-columns):]
	for i, s := range trend {
		values[columns-len(trend)+i] = by.sampleValue(s)
	}
	return frame.Spark(values, true)
}
