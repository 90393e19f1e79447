package inspect

import (
	"fmt"
	"io"
	"strconv"

	"github.com/xdpcap/xdpcap/internal/bench"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/escape"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// BenchReport is what bench prints about a loaded program.
type BenchReport struct {
	Program   string                  `json:"program"`
	ProgramID uint32                  `json:"program_id"`
	CPUs      []int                   `json:"cpus"`
	Cut       int                     `json:"cut"`  // packets that the capture has cut
	Left      int                     `json:"left"` // packets before the last one that were too short or too long to run
	More      bool                    `json:"more"` // the capture has more packets
	Verdicts  map[string]*programLine `json:"verdicts"`
	Total     *programLine            `json:"total"`
}

type programLine struct {
	Packets int      `json:"packets"`
	Changed int      `json:"changed"`           // packets that the program changes
	OnceNs  float64  `json:"once_adds_ns"`      // more than the empty program, for a single run
	Ns      *float64 `json:"adds_ns,omitempty"` // more than the empty program, for one run of many; missing if all packets are changed
	Cycles  *float64 `json:"adds_cycles,omitempty"`
	Native  *float64 `json:"adds_native_instructions,omitempty"`
}

func newProgramReport(b *bench.Result, packets *bench.Packets, cpu int) *BenchReport {
	r := &BenchReport{
		Program: b.Program.Name, ProgramID: b.Program.ID, CPUs: []int{cpu},
		Cut: packets.Cut, Left: packets.Short + packets.Long, More: packets.More,
		Verdicts: make(map[string]*programLine), Total: newProgramLine(&b.Total),
	}
	for v := range b.Verdicts {
		if c := &b.Verdicts[v]; c.Packets > 0 {
			r.Verdicts[xdp.Verdict(v).SlotName()] = newProgramLine(c)
		}
	}
	return r
}

func newProgramLine(c *bench.Cost) *programLine {
	l := &programLine{Packets: c.Packets, Changed: c.Changed, OnceNs: c.OnceNs}
	if c.Repeated > 0 {
		l.Ns = &c.Ns
	}
	if c.Hardware {
		l.Cycles, l.Native = &c.Cycles, &c.NativeInstructions
	}
	return l
}

func (r *BenchReport) WriteTable(w io.Writer) {
	p := xdp.Program{ID: r.ProgramID, Name: r.Program}
	fmt.Fprintln(w, frame.Shorten(escape.Text(fmt.Sprintf("%v on CPU %d, in ns per packet above a program that does nothing", p, r.CPUs[0])), frame.MaxColumns))
	t := &frame.Table{}
	t.Add("VERDICT", "PACKETS", "CHANGED", "ONCE", "REPEATED", "CYCLES", "NATIVE")
	add := func(name string, l *programLine) {
		t.Add(name, strconv.Itoa(l.Packets), strconv.Itoa(l.Changed), fixed(l.OnceNs, 1), fixedOrDash(l.Ns), fixedOrDash(l.Cycles), fixedOrDash(l.Native))
	}
	for v := range xdp.VerdictSlots {
		name := xdp.Verdict(v).SlotName()
		if l := r.Verdicts[name]; l != nil {
			add(name, l)
		}
	}
	add("total", r.Total)
	t.Write(w)
	for _, line := range r.remarks() {
		fmt.Fprintln(w, line)
	}
}

// remarks are sentences about what the table does not show.
func (r *BenchReport) remarks() (lines []string) {
	if r.More {
		lines = append(lines, fmt.Sprintf("The capture has more packets: these are its first %d.", r.Total.Packets))
	}
	if r.Cut > 0 {
		lines = append(lines, fmt.Sprintf("%d packets were cut by the capture: the program saw only their beginning.", r.Cut))
	}
	if r.Left > 0 {
		lines = append(lines, fmt.Sprintf("%d packets were left out, because they are too short or too long to run.", r.Left))
	}
	if r.Total.Changed > 0 {
		lines = append(lines, fmt.Sprintf("REPEATED leaves out %d packets, because each run of the program would change them again.", r.Total.Changed))
	}
	return lines
}

func fixed(x float64, digits int) string { return strconv.FormatFloat(x, 'f', digits, 64) }

func fixedOrDash(x *float64) string {
	if x == nil {
		return "-"
	}
	return fixed(*x, 1)
}
