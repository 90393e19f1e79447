package read

import (
	"fmt"
	"io"
	"strconv"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/replay"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A MeasuredReport is what replay --measure prints about a program. A cost of 0 is less than can be
// measured: noise may even make it negative.
type MeasuredReport struct {
	ProgramKeys
	CPUs     []int                   `json:"cpus"`
	Cut      int                     `json:"cut"`  // packets that the capture has cut
	Left     uint64                  `json:"left"` // packets before the last one on which it cannot run
	More     bool                    `json:"more"` // the capture has more packets
	Verdicts map[string]*programLine `json:"verdicts"`
	Total    *programLine            `json:"total"`
}

type programLine struct {
	Packets int      `json:"packets"`
	Changed int      `json:"changed"`           // packets that the program changes
	OnceNs  float64  `json:"once_adds_ns"`      // more than the empty program, for a single run
	Ns      *float64 `json:"adds_ns,omitempty"` // more than the empty program, for one run of many; missing if all packets are changed
	Cycles  *float64 `json:"adds_cycles,omitempty"`
	Native  *float64 `json:"adds_native_instructions,omitempty"`
}

func newMeasuredReport(p *replay.Program, m *replay.Measured, sample *replay.Sample, cpu int) *MeasuredReport {
	r := &MeasuredReport{
		ProgramKeys: newProgramKeys(p), CPUs: []int{cpu},
		Cut: sample.Cut, Left: sample.NotRun.Total(), More: sample.More,
		Verdicts: make(map[string]*programLine), Total: newProgramLine(&m.Total),
	}
	for v := range m.Verdicts {
		if c := &m.Verdicts[v]; c.Packets > 0 {
			r.Verdicts[xdp.Verdict(v).SlotName()] = newProgramLine(c)
		}
	}
	return r
}

func newProgramLine(c *replay.Cost) *programLine {
	measurable := func(x float64) *float64 { x = max(x, 0); return &x }
	l := &programLine{Packets: c.Packets, Changed: c.Changed, OnceNs: *measurable(c.OnceNs)}
	if c.Repeated > 0 {
		l.Ns = measurable(c.Ns)
	}
	if c.Hardware {
		l.Cycles, l.Native = measurable(c.Cycles), measurable(c.NativeInstructions)
	}
	return l
}

// isTooLittle reports whether a cost was less than can be measured.
func (l *programLine) isTooLittle() bool {
	isZero := func(x *float64) bool { return x != nil && *x == 0 }
	return l.OnceNs == 0 || isZero(l.Ns) || isZero(l.Cycles) || isZero(l.Native)
}

func (r *MeasuredReport) WriteTable(w io.Writer) {
	fmt.Fprintf(w, "%v on CPU %d, in ns per packet above a program that does nothing\n", r.ProgramKeys, r.CPUs[0])
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
func (r *MeasuredReport) remarks() (lines []string) {
	isTooLittle := r.Total.isTooLittle()
	for _, l := range r.Verdicts {
		isTooLittle = isTooLittle || l.isTooLittle()
	}
	if isTooLittle {
		lines = append(lines, "0.0 is less than can be measured.")
	}
	if r.More {
		lines = append(lines, fmt.Sprintf("The capture has more packets: these are its first %d.", r.Total.Packets))
	}
	if r.Cut > 0 {
		lines = append(lines, fmt.Sprintf("%d packets were cut by the capture: the program saw only their beginning.", r.Cut))
	}
	if r.Left > 0 {
		lines = append(lines, fmt.Sprintf("%d packets were left out: sent, no Ethernet frames, or too short or too long to run.", r.Left))
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
