package report

import (
	"fmt"
	"strings"
)

// A Chart draws some numbers of a table: as bars, one below the other, each with its label and
// number, or as columns from left to right, for numbers in the order of time or size.
type Chart struct {
	Title   string
	Columns bool // not bars
	Marks   []Mark

	number int // the position among all charts of the page, from 1
}

// A Mark is a bar or a column.
type Mark struct {
	Label string
	Value float64
	Text  string  // Value as a text
	Bad   float64 // the lost part of Value, which is red
}

// A shape is a mark in the picture. Horizontal positions are shares of the width, so that a chart
// fits every window.
type shape struct {
	Mark
	X, Width, BadX, BadWidth string // in percent
	Y, Height, BadY, BadHeight,
	LabelY, TextY float64 // in pixels
}

// The measures of charts, in pixels.
const (
	barSpace, barTop, barHeight           = 34, 19, 8
	columnsTop, columnsHeight, belowChart = 18, 120, 20
	barShare                              = 76  // percent of the width; the rest is for the number
	maxLabel                              = 120 // characters; a narrow window cuts it
)

// ID identifies the chart's title and description in the page.
func (c *Chart) ID() string { return fmt.Sprintf("chart-%d", c.number) }

// Height is the height of the picture.
func (c *Chart) Height() int {
	if c.Columns {
		return columnsTop + columnsHeight + belowChart
	}
	return max(len(c.Marks), 1) * barSpace
}

// Base is the bottom of the columns.
func (c *Chart) Base() int { return columnsTop + columnsHeight }

// LabelsY is the baseline of the labels below the columns.
func (c *Chart) LabelsY() int { return c.Height() - 5 }

// Largest is the mark with the largest value, which has the full length or height.
func (c *Chart) Largest() (largest Mark) {
	for i, m := range c.Marks {
		if i == 0 || m.Value > largest.Value {
			largest = m
		}
	}
	return largest
}

// First is the label of the first column.
func (c *Chart) First() string { return c.Marks[0].Label }

// Last is the label of the last column.
func (c *Chart) Last() string { return c.Marks[len(c.Marks)-1].Label }

// Description describes the picture in words, for screen readers.
func (c *Chart) Description() string {
	if len(c.Marks) == 0 {
		return "There is nothing to show."
	}
	if c.Columns {
		most := c.Largest()
		return fmt.Sprintf("%d columns from %s to %s. The largest is %s at %s.", len(c.Marks), c.First(), c.Last(), most.Text, most.Label)
	}
	var parts []string
	for _, m := range c.Marks {
		parts = append(parts, m.Label+": "+m.Text)
	}
	return strings.Join(parts, "; ") + "."
}

// Shapes are the marks with their positions.
func (c *Chart) Shapes() (all []shape) {
	most := c.Largest().Value
	for i, m := range c.Marks {
		share, bad := portion(m.Value, most), portion(m.Bad, most)
		s := shape{Mark: m}
		if c.Columns {
			step := 100 / float64(len(c.Marks))
			s.X, s.Width = percent(float64(i)*step), percent(step*0.86)
			s.BadX, s.BadWidth = s.X, s.Width
			s.Height, s.BadHeight = columnsHeight*share, columnsHeight*bad
			s.Y = float64(c.Base()) - s.Height
			s.BadY = s.Y
		} else {
			s.Label = shorten(m.Label, maxLabel)
			s.LabelY, s.Y, s.TextY = float64(i*barSpace+13), float64(i*barSpace+barTop), float64(i*barSpace+barTop+barHeight)
			s.Height, s.BadY, s.BadHeight = barHeight, s.Y, barHeight
			s.X, s.Width = percent(0), percent(barShare*share)
			s.BadX, s.BadWidth = percent(barShare*(share-bad)), percent(barShare*bad)
		}
		all = append(all, s)
	}
	return all
}

// portion is a value's part of the largest one; 0 if all are 0.
func portion(value, largest float64) float64 {
	if largest <= 0 {
		return 0
	}
	return min(max(value/largest, 0), 1)
}

func percent(x float64) string { return fmt.Sprintf("%.3f%%", x) }

// shorten cuts the middle out of a label that is too long.
func shorten(s string, runes int) string {
	all := []rune(s)
	if len(all) <= runes {
		return s
	}
	return string(all[:runes/2]) + "…" + string(all[len(all)-runes/2+1:])
}
