package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// The blocks that documents can have. The text between the two lines
//
//	<!-- begin NAME: ... -->
//	<!-- end NAME -->
//
// is replaced by what the function prints.
var blocks = map[string]func(*Report, io.Writer){
	"summary": (*Report).printSummary,
	"speed":   (*Report).printSpeed,
	"sizing":  (*Report).printSizing,
}

func (r *Report) fillFile(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	filled, err := r.fill(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, []byte(filled), 0o644)
}

// fill returns the text with its blocks replaced. A text without a block is an error.
func (r *Report) fill(text string) (string, error) {
	found := false
	for name, print := range blocks {
		before, rest, ok := strings.Cut(text, "<!-- begin "+name+":")
		if !ok {
			continue
		}
		begin, rest, ok := strings.Cut(rest, "-->\n")
		_, after, isEnded := strings.Cut(rest, "<!-- end "+name+" -->")
		if !ok || !isEnded {
			return "", fmt.Errorf("the block %s has no end", name)
		}
		var b strings.Builder
		print(r, &b)
		text = before + "<!-- begin " + name + ":" + begin + "-->\n" + b.String() + "<!-- end " + name + " -->" + after
		found = true
	}
	if !found {
		return "", fmt.Errorf("no block for figures")
	}
	return text, nil
}

// printSummary prints the block of README.md: the highest rates without loss, and the rate that the
// traffic keeps beside each tool. It omits the bounds of the machine, which copying alone measures.
func (r *Report) printSummary(out io.Writer) {
	short, long, ok := r.shortAndLong(out)
	if !ok {
		return
	}
	fmt.Fprint(out, "| | 64 bytes: loses nothing up to | traffic keeps | 1518 bytes: loses nothing up to | traffic keeps |\n|---|---|---|---|---|\n")
	for _, row := range short.Rows {
		if row.Name == copyDropName || row.Name == copyPassName {
			continue
		}
		other := long.row(row.Name)
		fmt.Fprintf(out, "| %s | %s | %s | %s | %s |\n", row.Name, rateCell(row), percent(row.Keeps), rateCell(other), percent(other.Keeps))
	}
}

// shortAndLong prints where and when the figures were measured, and returns the tables of the
// shortest and the longest usual frames. It returns false if they were not measured.
func (r *Report) shortAndLong(out io.Writer) (short, long *Sheet, ok bool) {
	short, long = r.sheet(64), r.sheet(1518)
	if short == nil || long == nil {
		fmt.Fprint(out, "Not measured yet.\n")
		return nil, nil, false
	}
	fmt.Fprintf(out, "%s\n\n", wrap(fmt.Sprintf("Measured on %s, %s:", r.Machine, r.Measured.Format("2 January 2006")), 100, ""))
	return short, long, true
}

// printSpeed prints the block of docs/speed.md: the shortest and the longest usual frames, and the
// kernel's cost per packet.
func (r *Report) printSpeed(out io.Writer) {
	short, long, ok := r.shortAndLong(out)
	if !ok {
		return
	}
	fmt.Fprint(out, "| | 64 bytes: loses nothing up to | of XDP_DROP | traffic keeps | reader CPU "+
		"| 1518 bytes: loses nothing up to | of XDP_DROP | traffic keeps | reader CPU |\n"+
		"|---|---|---|---|---|---|---|---|---|\n")
	for _, row := range short.Rows {
		fmt.Fprintf(out, "| %s |%s |%s |\n", row.Name, speedCells(row), speedCells(long.row(row.Name)))
	}
	r.printSpeedFiles(out)
	r.printSpeedDrains(out)
	r.printSpeedCosts(out)
}

// printSpeedCosts prints the kernel's cost per packet, and the rate that traffic keeps without the
// card's VLAN tags, because the programs run without them in that measurement.
func (r *Report) printSpeedCosts(out io.Writer) {
	fmt.Fprint(out, "\nWhat a packet of 64 bytes costs in the kernel, by BPF_PROG_RUN:\n\n| | ring | perf |\n|---|---|---|\n")
	for _, c := range r.Costs {
		if c.Transport == ring && c.Bytes == 64 {
			fmt.Fprintf(out, "| %s | %s | %s |\n", c.What, nanos(c.KernelNs), nanos(r.cost(c.What, perf, c.Bytes).KernelNs))
		}
	}
	with, without := r.row(64, sinkName(ring)).OfDrop, r.cost(noTagsName, ring, 64).OfDrop
	if with == 0 || without == 0 {
		return
	}
	text := fmt.Sprintf("These costs are without the card's VLAN tags, because BPF_PROG_RUN runs no program that is bound "+
		"to its device. Traffic with `--sink` keeps %s of XDP_DROP's rate beside a capture that asks for the tags, "+
		"as veth lets it by default, and %s with `--vlan-restore=false`.", percent(with), percent(without))
	fmt.Fprintf(out, "\n%s\n", wrap(text, 100, ""))
}

// printSpeedFiles prints what is captured of unpaced traffic into files.
func (r *Report) printSpeedFiles(out io.Writer) {
	if len(r.Files) == 0 {
		return
	}
	fmt.Fprint(out, "\nInto files, of traffic that is not paced:\n\n|")
	for _, s := range r.Files {
		fmt.Fprintf(out, " | %d bytes, %s: captured | CPU", s.Bytes, s.To)
	}
	fmt.Fprint(out, " |\n|---|"+strings.Repeat("---|---|", len(r.Files))+"\n")
	for _, row := range r.Files[0].Rows {
		fmt.Fprintf(out, "| %s |", row.Name)
		for _, s := range r.Files {
			cell := s.row(row.Name)
			part := noFigure
			if cell.Captured > 0 {
				part = captured(cell.Captured) + " of " + mpps(cell.Unpaced)
			}
			fmt.Fprintf(out, " %s | %s |", part, micros(cell.ReaderUs))
		}
		fmt.Fprintln(out)
	}
}

// printSpeedDrains prints how fast filled rings are emptied.
func (r *Report) printSpeedDrains(out io.Writer) {
	if len(r.Drains) == 0 {
		return
	}
	fmt.Fprint(out, "\nOut of filled rings, while nothing else comes (the tool was stopped until they were full):\n\n| | bytes | rings | to | CPU per packet | packets per second |\n|---|---|---|---|---|---|\n")
	for _, d := range r.Drains {
		if d.CPUNs > 0 {
			fmt.Fprintf(out, "| %s | %d | %d | %s | %s | %s |\n", d.name(), d.Bytes, d.Rings, d.To, nanos(&d.CPUNs), mpps(d.Rate))
		}
	}
}

// name is what a row is called beside those of other tools.
func (d Drain) name() string {
	switch {
	case d.Command == "", slices.Contains(otherNames, d.What):
		return d.What
	case d.What == wholeName:
		return "xdpcap"
	}
	return "xdpcap, " + strings.TrimPrefix(d.What, wholeName+", ")
}

func speedCells(r Row) string {
	return fmt.Sprintf(" %s | %s | %s | %s", rateCell(r), percent(r.OfDrop), percent(r.Keeps), micros(r.ReaderUs))
}

func rateCell(r Row) string {
	if r.alwaysLost() {
		return "none"
	}
	return mpps(r.Rate)
}
