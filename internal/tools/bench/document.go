package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"
)

// The blocks that documents can have. The text between the two lines
//
//	<!-- begin NAME: ... -->
//	<!-- end NAME -->
//
// is replaced by the output of the function.
var blocks = map[string]func(*results, io.Writer){
	"summary": (*results).printSummary,
	"speed":   (*results).printSpeed,
	"sizing":  (*results).printSizing,
}

// fill returns the text with its blocks replaced. A text without a block is an error.
func (r *results) fill(text string) (string, error) {
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

// A table is one of a Markdown document; the first row is the head.
type table [][]string

func (t *table) row(cells ...string) { *t = append(*t, cells) }

func (t table) print(out io.Writer) {
	for i, cells := range t {
		fmt.Fprintln(out, strings.Replace("| "+strings.Join(cells, " | ")+" |", "|  |", "| |", 1))
		if i == 0 {
			fmt.Fprintln(out, "|"+strings.Repeat("---|", len(cells)))
		}
	}
}

// entrantNames returns the names of the entrants, in the order of the tables.
func entrantNames() []string {
	all := []string{dropName, passName, copyDropName, copyPassName}
	for _, t := range (&program{}).tools() {
		all = append(all, t.name)
	}
	return append(all, otherNames...)
}

// printMachine prints the machine, and the day of the measurements.
func (r *results) printMachine(out io.Writer) {
	day := r.head["date"]
	if date, err := time.Parse(time.DateOnly, day); err == nil {
		day = date.Format("2 January 2006")
	}
	fmt.Fprintln(out, wrap(fmt.Sprintf("Measured on %s, %s:", r.machine(), day)))
}

// printSummary prints the block of README.md: the highest rates without loss, and the rate that the
// traffic keeps beside each tool. It omits the bounds of the machine, which copying alone measures.
func (r *results) printSummary(out io.Writer) {
	r.printMachine(out)
	t := table{{"", "64 bytes: loses nothing up to", "traffic keeps", "1518 bytes: loses nothing up to", "traffic keeps"}}
	for _, name := range entrantNames() {
		if name == copyDropName || name == copyPassName {
			continue
		}
		cells := []string{name}
		for _, size := range []int{shortSize, longSize} {
			cells = append(cells, mpps(r.rate(name, size)), percent(r.figure(unpaced(name, size), unitKeeps)))
		}
		t.row(cells...)
	}
	t.print(out)
}

// printSpeed prints the block of docs/speed.md: the shortest and the longest usual frames, files,
// filled rings, and the kernel's cost per packet.
func (r *results) printSpeed(out io.Writer) {
	r.printMachine(out)
	head := []string{"of XDP_DROP", "traffic keeps", "reader CPU"}
	t := table{slices.Concat([]string{"", "64 bytes: loses nothing up to"}, head, []string{"1518 bytes: loses nothing up to"}, head)}
	for _, name := range entrantNames() {
		cells := []string{name}
		for _, size := range []int{shortSize, longSize} {
			cells = append(cells, mpps(r.rate(name, size)), percent(r.figure(lossless(name, size), unitOfDrop)),
				percent(r.figure(unpaced(name, size), unitKeeps)), micros(r.reader(name, size)))
		}
		t.row(cells...)
	}
	t.print(out)
	r.printFiles(out)
	r.printTCP(out)
	r.printDrains(out)
	r.printCosts(out)
}

// printFiles prints the part of unpaced traffic that is captured into files.
func (r *results) printFiles(out io.Writer) {
	sheets := []sheet{{size: shortSize, to: inMemory}, {size: longSize, to: inMemory}, {size: shortSize, to: onDisk}, {size: longSize, to: onDisk}}
	t := table{{""}}
	for _, s := range sheets {
		t[0] = append(t[0], fmt.Sprintf("%d bytes, %s: captured", wireSize(s.size), s.to), "CPU")
	}
	for _, name := range []string{sinkName(ring), ownName(ring), roomName, tcpdumpName, dumpcapName} {
		cells := []string{name}
		for _, s := range sheets {
			at := s.name("Unpaced", name)
			cells = append(cells, r.capturedOf(at), micros(r.figure(at, unitNsPacket)))
		}
		t.row(cells...)
	}
	fmt.Fprint(out, "\nInto files, of traffic that is not paced:\n\n")
	t.print(out)
}

// printTCP prints the rates of a TCP connection beside captures at its receiver.
func (r *results) printTCP(out io.Writer) {
	if math.IsNaN(r.figure(overTCP(noneName), unitKeeps)) {
		return
	}
	t := table{{"", "TCP transfers", "keeps"}}
	for _, name := range tcpNames {
		rate, part := r.figure(overTCP(name), unitBytesSecond), r.figure(overTCP(name), unitKeeps)
		t.row(name, formatted("%.1f Gbit/s", rate*8/1e9), percent(part))
	}
	fmt.Fprint(out, "\nOf a TCP connection over a veth pair, while a tool captures at its receiver:\n\n")
	t.print(out)
}

// capturedOf returns the captured part of a rate as text. Below 100 % it is never rounded to "all".
func (r *results) capturedOf(name string) string {
	part := r.figure(name, unitCaptured)
	switch {
	case math.IsNaN(part):
		return noFigure
	case part == 1:
		return "all of " + mpps(r.figure(name, unitPPS))
	}
	return fmt.Sprintf("%.1f %% of %s", min(100*part, 99.9), mpps(r.figure(name, unitPPS)))
}

// printDrains prints how fast filled rings are emptied, each beside a thread that only copies.
func (r *results) printDrains(out io.Writer) {
	t := table{{"", "bytes", "rings", "to", "CPU per packet", "packets per second"}}
	for _, d := range drainages {
		for _, name := range []string{d.name, copyingName} {
			cpu, rate := r.figure(d.benchmark(name), unitNsPacket), r.figure(d.benchmark(name), unitPPS)
			if math.IsNaN(rate) || name == copyingName && d.name != wholeName {
				continue
			}
			switch {
			case name == wholeName:
				name = "xdpcap"
			case name != copyingName && !slices.Contains(otherNames, name):
				name = "xdpcap, " + strings.TrimPrefix(name, wholeName+", ")
			}
			t.row(name, fmt.Sprint(wireSize(d.size)), fmt.Sprint(d.rings), d.to, nanos(cpu), mpps(rate))
		}
	}
	fmt.Fprint(out, "\nOut of filled rings, while nothing else comes (the tool was stopped until they were full):\n\n")
	t.print(out)
}

// printCosts prints the kernel's cost per packet, and the rate that traffic keeps without the
// card's VLAN tags, because the programs run without them in that measurement.
func (r *results) printCosts(out io.Writer) {
	t := table{{"", ring, perf}}
	for _, c := range configs {
		if c.size == shortSize || c.place == atIngress || c.frame != nil {
			name := c.name
			if c.size != shortSize {
				name += fmt.Sprintf(", %d bytes", wireSize(c.size))
			}
			t.row(name, nanos(r.cost(c.name, ring, c.size)), nanos(r.cost(c.name, perf, c.size)))
		}
	}
	fmt.Fprint(out, "\nWhat a packet of 64 bytes costs in the kernel, by BPF_PROG_RUN:\n\n")
	t.print(out)
	with, without := r.keptPart(sinkName(ring)), r.keptPart(inTraffic(noTagsName, ring))
	if math.IsNaN(with + without) {
		return
	}
	fmt.Fprintf(out, "\n%s", wrap(fmt.Sprintf("These costs are without the card's VLAN tags, because BPF_PROG_RUN runs no program that is bound "+
		"to its device. Traffic with `--sink` keeps %s of XDP_DROP's rate beside a capture that asks for the tags, "+
		"as veth lets it by default, and %s with `--vlan-restore=false`.", percent(with), percent(without))))
}
