package read

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/replay"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// checkMeasure refuses flags that have no effect with --measure.
func (r *replayOptions) checkMeasure(o *Options) error {
	switch {
	case !r.measure:
		return nil
	case r.against != "" || r.expect != "" || len(o.Writes) > 0 || o.Print || r.ingress != "":
		return errors.New("--measure runs the program over and over on a few packets: omit --against, --expect, --ingress, -w and --print")
	case r.duration < 10*time.Millisecond:
		return fmt.Errorf("--duration %v: must be at least 10ms", r.duration)
	}
	return nil
}

// printMeasured measures the cost of the program on the first CPU that this process may run on, and
// prints it.
func (r *replayOptions) printMeasured(ctx context.Context, o *Options) error {
	cpu, err := firstCPU()
	if err != nil {
		return err
	}
	p := r.options.Program
	frame.Say(o.Process.Stderr, "measuring %v on CPU %d for %v and longer", p, cpu, r.duration)
	m, err := replay.Measure(ctx, replay.MeasureOptions{Program: p, Packets: r.sample.Data, CPU: cpu, Duration: r.duration})
	if err != nil {
		return err
	}
	return printReport(o.Process.Stdout, newMeasuredReport(p, m, &r.sample, cpu), o.json)
}

func firstCPU() (int, error) {
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		return 0, fmt.Errorf("ask for the CPUs of this process: %w", err)
	}
	for cpu := range len(allowed) * 64 {
		if allowed.IsSet(cpu) {
			return cpu, nil
		}
	}
	return 0, errors.New("this process may run on no CPU")
}

// A MeasuredReport is printed by replay --measure. A cost of 0 is less than can be measured, also
// where noise has made it negative.
type MeasuredReport struct {
	ProgramKeys
	CPUs     []int                   `json:"cpus"`
	Cut      int                     `json:"cut"`  // packets that the capture has cut
	Left     uint64                  `json:"left"` // packets, before the last measured one, that cannot be run
	More     bool                    `json:"more"` // the capture has more packets
	Verdicts map[string]*programLine `json:"verdicts"`
	Total    *programLine            `json:"total"`
}

// A programLine has the cost per packet above that of an empty program.
type programLine struct {
	Packets int      `json:"packets"`
	Changed int      `json:"changed"`           // packets that the program changes
	OnceNs  float64  `json:"once_adds_ns"`      // of a single run
	Ns      *float64 `json:"adds_ns,omitempty"` // of one run of many; nil if the program changes all packets
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
	atLeast0 := func(x float64) *float64 { x = max(x, 0); return &x }
	l := &programLine{Packets: c.Packets, Changed: c.Changed, OnceNs: max(c.OnceNs, 0)}
	if c.Repeated > 0 {
		l.Ns = atLeast0(c.Ns)
	}
	if c.Hardware {
		l.Cycles, l.Native = atLeast0(c.Cycles), atLeast0(c.NativeInstructions)
	}
	return l
}

// isTooLittle reports whether a cost was less than can be measured.
func (l *programLine) isTooLittle() bool {
	isZero := func(x *float64) bool { return x != nil && *x == 0 }
	return l.OnceNs == 0 || isZero(l.Ns) || isZero(l.Cycles) || isZero(l.Native)
}

// WriteTable prints the report as a table.
func (r *MeasuredReport) WriteTable(w io.Writer) {
	fmt.Fprintf(w, "%v on CPU %d, in ns per packet above a program that does nothing\n", r.ProgramKeys, r.CPUs[0])
	t := &frame.Table{}
	t.Add("VERDICT", "PACKETS", "CHANGED", "ONCE", "REPEATED", "CYCLES", "NATIVE")
	add := func(name string, l *programLine) {
		t.Add(name, strconv.Itoa(l.Packets), strconv.Itoa(l.Changed), tenths(&l.OnceNs), tenths(l.Ns), tenths(l.Cycles), tenths(l.Native))
	}
	for _, name := range verdictOrder {
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

// remarks are sentences below the table.
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

// tenths is a number with one decimal, or a dash.
func tenths(x *float64) string {
	if x == nil {
		return "-"
	}
	return strconv.FormatFloat(*x, 'f', 1, 64)
}
