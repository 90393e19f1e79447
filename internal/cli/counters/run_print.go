package counters

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/message"
)

// print prints the last interval of all counters, on a terminal in place of the tables before.
func (r *counterRun) print() error {
	switch {
	case r.o.quiet:
		return nil
	case r.o.JSON:
		return r.printObjects((*counted).LastReport)
	}
	var text []byte
	for _, block := range r.blocks("", (*counted).LastReport) {
		text = append(text, block...)
		if r.screen == nil {
			text = append(text, '\n')
		}
	}
	if r.screen != nil && text != nil {
		text = r.screen.Redraw(text)
	}
	_, err := r.out.Write(text)
	return frame.ExplainPrint(err)
}

// printTotals shows the whole run as one interval, on a terminal in place of the last table. JSON
// objects already have these numbers, unless --quiet omitted them.
func (r *counterRun) printTotals() error {
	if r.o.JSON && !r.o.quiet {
		return nil
	}
	if r.o.JSON {
		return r.printObjects((*counted).WholeReport)
	}
	text := bytes.Join(r.blocks("total", (*counted).WholeReport), []byte("\n"))
	if r.screen != nil {
		text = r.screen.Last(text)
	}
	_, err := r.out.Write(text)
	return frame.ExplainPrint(err)
}

func (r *counterRun) printObjects(report func(*counted) Report) error {
	e := message.NewJSONEncoder(r.out)
	for _, c := range r.counted {
		if err := e.Encode(report(c)); err != nil {
			return frame.ExplainPrint(err)
		}
	}
	return nil
}

// blocks are the tables of all counters. when is their time in words; "" = the end of the interval.
// Where interfaces come and go, the busiest are first, and those that counted no packet in the
// interval are one line together.
func (r *counterRun) blocks(when string, report func(*counted) Report) (all [][]byte) {
	type table struct {
		*counted
		Report
	}
	var tables []table
	var reports []Report
	sums, busy := make(map[int]uint64), make(map[int]bool) // of interfaces, by index
	for _, c := range r.counted {
		one := table{c, report(c)}
		tables, reports = append(tables, one), append(reports, one.Report)
		if a, ok := one.Report.(amount); ok {
			n, rate := a.amount()
			sums[c.index] += n
			if rate > 0 {
				busy[c.index] = true
			}
		}
	}
	Joined(reports)
	add := func(print func(*frame.Page)) {
		var b bytes.Buffer
		page := &frame.Page{Writer: &b, Colored: r.colored}
		if r.screen != nil {
			page = r.screen.Page(&b, r.colored)
		}
		print(page)
		all = append(all, b.Bytes())
	}
	idle := 0
	if r.discovery != nil {
		slices.SortStableFunc(tables, func(a, b table) int { return cmp.Compare(sums[b.index], sums[a.index]) })
		tables = slices.DeleteFunc(tables, func(t table) bool { return !busy[t.index] })
		idle = len(sums) - len(busy)
	}
	for _, t := range tables {
		add(func(p *frame.Page) { WriteBlock(p, when, t.String(), t.Report) })
	}
	switch {
	case idle > 0 && len(tables) > 0:
		add(func(p *frame.Page) { p.Line("and %d idle", idle) })
	case idle > 0:
		when = cmp.Or(when, endOf(reports[0]))
		add(func(p *frame.Page) { p.Line("%s  %s", when, frame.Several(idle, "idle interface")) })
	}
	return all
}

// endOf is the local time at which the interval of a report ended.
func endOf(r Report) string { return r.interval().Time.Local().Format("15:04:05.000") }

// WriteBlock prints the table of a report below a title: `when`, or the end of the interval if it
// is ""; `of`, the counted object; and the length of the interval.
func WriteBlock(p *frame.Page, when, of string, r Report) {
	i := r.interval()
	over := fmt.Sprintf("over %.3f s", i.Interval)
	if i.Interval != i.Elapsed {
		over = fmt.Sprintf("rates %s, totals over %.3f s", over, i.Elapsed)
	}
	when = cmp.Or(when, endOf(r))
	if of = message.Escape(of); p.Columns > 0 { // the name is shortened before the numbers are
		of = frame.Shorten(of, max(8, p.Columns-utf8.RuneCountInString(when+"  , "+over)))
	}
	p.Line("%s  %s, %s", when, of, over)
	r.WriteTable(p)
}
