package main

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// The blocks that documents can have. What stands between the two lines
//
//	<!-- begin NAME: ... -->
//	<!-- end NAME -->
//
// is replaced by what the function prints.
var blocks = map[string]func(*Report, io.Writer){
	"speed":  (*Report).printSpeed,
	"sizing": (*Report).printSizing,
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

// printSpeed prints what the README shows: the shortest and the longest usual frames.
func (r *Report) printSpeed(out io.Writer) {
	short, long := r.sheet(64), r.sheet(1518)
	if short == nil || long == nil {
		fmt.Fprint(out, "Not measured yet.\n")
		return
	}
	fmt.Fprintf(out, "%s\n\n", wrap(fmt.Sprintf("Measured on %s, %s:", r.Machine, r.Measured.Format("2 January 2006")), 100, ""))
	fmt.Fprint(out, "| | 64 bytes: loses nothing up to | of XDP_DROP | traffic keeps | reader CPU "+
		"| 1518 bytes: loses nothing up to | of XDP_DROP | traffic keeps | reader CPU |\n"+
		"|---|---|---|---|---|---|---|---|---|\n")
	for _, row := range short.Rows {
		fmt.Fprintf(out, "| %s |%s |%s |\n", row.Name, speedCells(row), speedCells(long.row(row.Name)))
	}
	fmt.Fprint(out, "\nWhat a packet of 64 bytes costs in the kernel, by BPF_PROG_RUN:\n\n| | ring | perf |\n|---|---|---|\n")
	for _, c := range r.Costs {
		if c.Transport == ring && c.Bytes == 64 {
			fmt.Fprintf(out, "| %s | %s | %s |\n", c.What, nanos(c.KernelNs), nanos(r.cost(c.What, perf, c.Bytes).KernelNs))
		}
	}
}

func speedCells(r Row) string {
	rate := mpps(r.Rate)
	if r.alwaysLost() {
		rate = "none"
	}
	return fmt.Sprintf(" %s | %s | %s | %s", rate, percent(r.OfDrop), percent(r.Keeps), micros(r.ReaderUs))
}
