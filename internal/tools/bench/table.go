package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

const noFigure = "-"

// print prints all figures, and says what they are.
func (r *Report) print(out io.Writer) {
	r.printHead(out)
	for i := range r.Frames {
		r.Frames[i].print(out)
	}
	r.printNotes(out)
	r.printFiles(out)
	r.printDrains(out)
	r.printStalls(out)
	r.printCosts(out)
	r.printTwoCPUs(out)
	r.printMissing(out)
	r.printPromises(out)
}

func (r *Report) printHead(out io.Writer) {
	fmt.Fprintf(out, "%s, load before %.2f; %s in %v\n%s\n", r.Machine, r.Machine.Load,
		r.Measured.Format("2006-01-02"), time.Duration(r.Seconds*1e9), r.Machine.Versions)
}

func (m Machine) String() string { return fmt.Sprintf("%d CPUs %s, %s", m.CPUs, m.CPU, m.Kernel) }

const lineFormat = "%-23s %12s %8s %7s %9s %8s %9s %8s %8s\n"

// print prints the sheet as a table.
func (s *Sheet) print(out io.Writer) {
	title := fmt.Sprintf("%d-byte frames", s.Bytes)
	if s.To != "" {
		title = fmt.Sprintf("%d bytes, to a %s", s.Bytes, s.To)
	}
	fmt.Fprintf(out, "\n"+lineFormat, title,
		"highest rate", "of", "times", "reader", "traffic", "quartiles", "of it", "rounds")
	fmt.Fprintf(out, lineFormat, "", "without loss", "XDP_DROP", xdpdumpName, "CPU", "keeps", "", "captured", "lossless")
	fmt.Fprintln(out, strings.Repeat("-", 100))
	dump := s.row(xdpdumpName)
	for _, r := range s.Rows {
		rate := mpps(r.Rate)
		if r.alwaysLost() {
			rate = "none"
		}
		fmt.Fprintf(out, lineFormat, r.Name, rate, percent(r.OfDrop), times(ratio(r.Rate, dump.Rate)),
			micros(r.ReaderUs), percent(r.Keeps), quartiles(r), percent(r.Captured), lossless(r))
	}
}

// printNotes says what the columns are and how the tools were run.
func (r *Report) printNotes(out io.Writer) {
	fmt.Fprint(out, `
highest rate without loss: the tool counted every packet that was sent. That of unpaced traffic,
    where most rounds had no loss, or found by bisection of it. XDP_DROP is the limit.
reader CPU: user and system time of the tool's process per packet, at that rate.
traffic keeps: the rate of unpaced traffic with the tool, over that without, under the same verdict;
    which part of it was captured, and in how many rounds all of it. Under XDP_PASS the kernel
    routes it on to another interface.
copying alone: an XDP program copies the packets, a thread on the other CPU reads the copies. That
    is the least that any capture at XDP has to do.
Everything is measured in turn, in rounds, and compared round by round; medians. The frames come
from the kernel, those of 9000 bytes from a packet socket. Whole packets go to /dev/null:
`)
	printCommands(out, r.Frames)
}

// printCommands prints how the tools of sheets were run.
func printCommands(out io.Writer, sheets []Sheet) {
	var said []string
	for _, s := range sheets {
		for _, row := range s.Rows {
			if row.Command == "" || slices.Contains(said, row.Command) {
				continue
			}
			said = append(said, row.Command)
			fmt.Fprintf(out, "    %s\n", row.Command)
		}
	}
}

// printFiles prints the sheets of tools that write to a file.
func (r *Report) printFiles(out io.Writer) {
	for i := range r.Files {
		r.Files[i].print(out)
	}
	if len(r.Files) == 0 {
		return
	}
	fmt.Fprint(out, `
To files, only unpaced traffic is measured; reader CPU is per captured packet, and has what the
process does to hand packets to the file system. none: some packets were lost in most rounds.
`)
	printCommands(out, r.Files)
}

const drainFormat = "%-28s %6s %6s  %-10s %9s %9s %12s %8s\n"

// printDrains prints how fast filled rings are emptied.
func (r *Report) printDrains(out io.Writer) {
	if len(r.Drains) == 0 {
		return
	}
	fmt.Fprintf(out, "\n"+drainFormat, "filled rings, emptied", "frame", "rings", "to", "CPU", "median", "rate", "packets")
	fmt.Fprintln(out, strings.Repeat("-", 96))
	for _, d := range r.Drains {
		cpu, rest := noFigure, noFigure
		if d.CPUNs > 0 {
			cpu, rest = nanos(&d.CPUNs), nanos(&d.MedianNs)
		}
		fmt.Fprintf(out, drainFormat, d.What, fmt.Sprint(d.Bytes), fmt.Sprint(d.Rings), d.To, cpu, rest, mpps(d.Rate), fmt.Sprint(d.Packets))
	}
	fmt.Fprint(out, `
The tool is stopped while its rings fill, each from a CPU, and then goes on, on two CPUs. CPU: time
of its process per packet, the lower quartile; for xdpcap, what more packets take longer than fewer.
Rate: packets per second by the clock, the median. Copying alone: a thread copies each packet's
bytes from as much memory, and writes them; its rate is that of the slower one of the two. tcpdump
and dumpcap have rings of 2 MiB by default.
`)
}

// printStalls prints what was lost while the output took nothing.
func (r *Report) printStalls(out io.Writer) {
	if len(r.Stalls) == 0 {
		return
	}
	fmt.Fprintln(out, "\nwith --sink into a pipe from which nobody reads for a while:")
	for _, s := range r.Stalls {
		if s.Missing == "" {
			fmt.Fprintf(out, "    %d bytes, %s, nobody reads for %.0f s: %d of %d packets lost\n",
				s.Bytes, mpps(s.Reached), s.Seconds, s.Lost, s.Sent)
		}
	}
}

const costFormat = "%-28s %6s  %8s %8s   %7s %7s   %9s %9s\n"

// printCosts prints the costs of a packet, a line for each configuration with both transports.
func (r *Report) printCosts(out io.Writer) {
	fmt.Fprintf(out, "\n"+costFormat, "what a packet costs", "frame", "kernel", "", "traffic", "", "reader CPU", "")
	fmt.Fprintf(out, costFormat, "", "bytes", ring, perf, ring, perf, ring, perf)
	fmt.Fprintln(out, strings.Repeat("-", 90))
	for _, c := range r.Costs {
		if c.Transport == "" {
			fmt.Fprintf(out, costFormat, c.What, fmt.Sprint(c.Bytes), nanos(c.KernelNs), "", "", "", "", "")
		}
		if c.Transport != ring {
			continue
		}
		p := r.cost(c.What, perf, c.Bytes)
		fmt.Fprintf(out, costFormat, c.What, fmt.Sprint(c.Bytes), nanos(c.KernelNs), nanos(p.KernelNs),
			traffic100(c), traffic100(p), micros(c.ReaderUs), micros(p.ReaderUs))
	}
	fmt.Fprint(out, `
kernel: CPU time of xdpcap's own program by BPF_PROG_RUN over an empty program, while xdpcap reads
    what it sends; nothing was lost. At the hook XDP with --sink, unless it says otherwise; at a
    program, over that program without xdpcap. With --drops, CPU time of XDP_PASS and the stack over
    the same without xdpcap, for packets that the stack throws away, and for others.
traffic: the rate of unpaced traffic with --sink, over XDP_DROP's. *: some of it was lost.
reader CPU: per captured packet, of that traffic.
`)
}

func traffic100(c Cost) string {
	if c.Captured != 0 && c.Captured < 1 {
		return percent(c.OfDrop) + "*"
	}
	return percent(c.OfDrop)
}

const twoFormat = "%-28s %12s %12s %12s %12s\n"

func (r *Report) printTwoCPUs(out io.Writer) {
	fmt.Fprintf(out, "\n"+twoFormat, "two CPUs that receive", "one CPU", "both", "of twice", "over empty")
	fmt.Fprintln(out, strings.Repeat("-", 80))
	for _, t := range r.TwoCPUs {
		fmt.Fprintf(out, twoFormat, "empty program, beside "+t.Transport, mpps(t.OneEmpty), mpps(t.TwoEmpty),
			percent(ratio(t.TwoEmpty, 2*t.OneEmpty)), "")
		fmt.Fprintf(out, twoFormat, "--sink, "+t.Transport, mpps(t.One), mpps(t.Two),
			percent(ratio(t.Two, 2*t.One)), percent(t.Scale))
	}
	fmt.Fprintln(out, "By BPF_PROG_RUN, 64-byte frames. With traffic that both CPUs send as well:")
	for _, t := range r.TwoCPUs {
		fmt.Fprintf(out, "    --sink, %s: of XDP_DROP's %s it keeps %s, of which %s is captured;\n        nothing is lost up to %s, %s\n",
			t.Transport, mpps(t.Drop), percent(t.Keeps), percent(t.Captured), mpps(t.Rate), percent(t.OfDrop))
	}
}

// printMissing says why there are no figures.
func (r *Report) printMissing(out io.Writer) {
	lines := slices.Clone(r.Notes)
	for _, s := range slices.Concat(r.Frames, r.Files) {
		for _, row := range s.Rows {
			if row.Missing != "" {
				lines = append(lines, fmt.Sprintf("%s, %d bytes%s: %s", row.Name, s.Bytes, toWhere(s.To), row.Missing))
			}
		}
	}
	for _, d := range r.Drains {
		if d.Missing != "" {
			lines = append(lines, fmt.Sprintf("filled rings (%d), %s, %d bytes, to %s: %s", d.Rings, d.What, d.Bytes, d.To, d.Missing))
		}
	}
	for _, s := range r.Stalls {
		if s.Missing != "" {
			lines = append(lines, fmt.Sprintf("stall, %d bytes: %s", s.Bytes, s.Missing))
		}
	}
	for _, c := range r.Costs {
		if c.Missing != "" {
			lines = append(lines, fmt.Sprintf("%s, %s, %d bytes: %s", c.What, c.Transport, c.Bytes, c.Missing))
		}
	}
	for _, t := range r.TwoCPUs {
		if t.Missing != "" {
			lines = append(lines, fmt.Sprintf("two CPUs, %s: %s", t.Transport, t.Missing))
		}
	}
	if len(lines) > 0 {
		fmt.Fprintln(out, "\nmissing figures:")
	}
	for _, l := range lines {
		fmt.Fprintln(out, wrap(l, 100, "    "))
	}
}

// toWhere says where a sheet's file is, after a comma.
func toWhere(to string) string {
	if to == "" {
		return ""
	}
	return ", to a " + to
}

// wrap breaks a text into indented lines of at most that many columns.
func wrap(text string, columns int, indent string) string {
	var lines []string
	line := indent
	for _, word := range strings.Fields(text) {
		if len(line)+1+len(word) > columns && strings.TrimSpace(line) != "" {
			lines = append(lines, line)
			line = indent + indent
		}
		if strings.TrimSpace(line) != "" {
			line += " "
		}
		line += word
	}
	return strings.Join(append(lines, line), "\n")
}

// These functions format the figures of the tables. A figure of 0 is missing and becomes noFigure.

func mpps(rate float64) string {
	if rate == 0 {
		return noFigure
	}
	return fmt.Sprintf("%.3f Mpps", rate/1e6)
}

func percent(part float64) string {
	if part == 0 {
		return noFigure
	}
	digits := 0
	if part < 0.1 {
		digits = 1
	}
	return fmt.Sprintf("%.*f %%", digits, 100*part)
}

func times(x float64) string {
	if x == 0 {
		return noFigure
	}
	return fmt.Sprintf("%.1f x", x)
}

// ratio returns x / of, 0 if either is 0.
func ratio(x, of float64) float64 {
	if of == 0 {
		return 0
	}
	return x / of
}

func quartiles(r Row) string {
	if r.KeepsLow == r.KeepsHigh {
		return noFigure
	}
	return fmt.Sprintf("%.0f-%.0f %%", 100*r.KeepsLow, 100*r.KeepsHigh)
}

func lossless(r Row) string {
	if r.Rounds == 0 {
		return noFigure
	}
	return fmt.Sprintf("%d/%d", r.Lossless, r.Rounds)
}

func micros(us float64) string {
	if us == 0 {
		return noFigure
	}
	return fmt.Sprintf("%.3f us", us)
}

func nanos(ns *float64) string {
	if ns == nil {
		return noFigure
	}
	return fmt.Sprintf("%.1f ns", *ns)
}
