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
	leastAddress = len("255.255.255.255:65535") // which bars and trends leave to a name
	leastTrend   = 8
)

// tableLines are the titles and rows of the table on the screen, around the cursor.
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
		look := plain
		switch {
		case i == cursor:
			look = reverse
		case r.lost:
			look = bad
		}
		cells := ""
		for c := range columns {
			cells += columns[c].text(columns[c].cell(r))
		}
		if trend == 0 {
			cells = strings.TrimSuffix(cells, strings.Repeat(" ", gap))
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

// layout chooses the columns that fit into the window, and the widths of bars and trends; 0 = none. The
// number by which the rows are sorted always has a column: names are cut first.
func (m *model) layout(t *table) (columns []column, bar, trend int) {
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
	fixed := len(t.numbers) + 1 // columns of numbers: of run times, and of the order
	rest := m.width - widthOf(names)
	for fixed < len(numbers) && rest-widthOf(numbers[:fixed+1]) >= barAndTrend {
		fixed++
	}
	columns = append(names, numbers[:fixed]...)
	rest = m.width - widthOf(columns)
	// The widest names are shortened: for bars and trends down to leastAddress, for numbers further.
	rest += shorten(columns[:len(names)], barAndTrend-rest, leastAddress)
	rest += shorten(columns[:len(names)], -gap-rest, leastName)
	switch {
	case rest >= barAndTrend:
		bar = min(mostBar, max(leastBar, rest/3))
		trend = min(minute, rest-bar-gap)
	case rest >= leastTrend:
		trend = rest
	}
	return columns, bar, trend
}

// shorten makes columns narrower, the widest first and none below least, by a number of characters in
// total. It returns the number that it has reached.
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

// numberColumns are all columns of numbers in the order of their precedence: those of run times, then
// the one by which the rows are sorted, then the others.
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
