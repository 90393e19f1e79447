package top

import (
	"github.com/xdpcap/xdpcap/internal/cli/counters"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/meter"
)

// A counter reads an open meter once a second. The command of the same counters prints its totals.
type counter[S any] struct {
	*counters.Counter[S]
	last *meter.Interval[S] // where the last second is kept
}

// meters is what is done to all counters alike, whatever they count.
type meters interface {
	String() string
	Follow() (notice string, err error)
	Close() error
	// read takes the next snapshot.
	read() error
	// total is what was counted since the beginning, for people.
	total() totals
}

// A totals is the report of a counter about its whole time, and the title of its table.
type totals struct {
	counters.Report
	write func(*frame.Page) // after the reports have joined each other
}

func (c *counter[S]) read() error {
	next, err := c.Next(*c.last)
	*c.last = next
	return err
}

func (c *counter[S]) total() totals {
	whole := c.last.Whole()
	r := c.Report(whole)
	return totals{r, func(p *frame.Page) { counters.WriteBlock(p, "total", c.String(), whole, r) }}
}
