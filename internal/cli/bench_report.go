package cli

import (
	"fmt"
	"io"
	"strconv"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/escape"
	"github.com/xdpcap/xdpcap/internal/meter"
)

// benchReport is what bench prints of the variants: as a table, or with --json as this object.
type benchReport struct {
	CPUs      []int       `json:"cpus"`
	Interface string      `json:"interface,omitempty"` // of -i, and so is mode
	Mode      string      `json:"mode,omitempty"`
	Results   []benchLine `json:"results"`
}

type benchLine struct {
	Variant string  `json:"variant"` // empty: the program that does nothing
	Sizes   bool    `json:"sizes,omitempty"`
	Flows   string  `json:"flows,omitempty"`  // few, or new: one in each packet
	Sample  uint32  `json:"sample,omitempty"` // it counts one packet in so many
	Packets uint64  `json:"packets"`          // sent, and counted exactly
	Mpps    float64 `json:"mpps"`             // of all CPUs
	Ns      float64 `json:"ns_per_packet"`
	Spread  float64 `json:"spread"`             // of ns_per_packet, 0.01 = 1 %
	Adds    float64 `json:"adds_ns"`            // of a variant over empty, with sizes, flows or sampling over the variant
	SpeedUp float64 `json:"speed_up,omitempty"` // over naive; missing where that was not measured
	Insns   int     `json:"instructions"`
	Hot     int     `json:"hot_path_instructions"`

	Cycles *float64 `json:"cycles_per_packet,omitempty"` // missing where the machine does not count
	Native *float64 `json:"native_instructions_per_packet,omitempty"`

	Attached *attachedLine `json:"attached,omitempty"`
}

// attachedLine is what a program takes at the XDP hook of an interface.
type attachedLine struct {
	Packets uint64  `json:"packets"` // that came in
	Mpps    float64 `json:"mpps"`
	Ns      float64 `json:"ns_per_packet"`
	Spread  float64 `json:"spread"`
	Adds    float64 `json:"adds_ns"`
	CPU     float64 `json:"cpu"` // of one CPU, 0.01 = 1 %
}

// newBenchReport makes a report of results; attached is nil where they were not measured at an
// interface.
func newBenchReport(results []meter.BenchResult, cpus []int, attached *meter.AttachedBench) *benchReport {
	b := &benchReport{CPUs: cpus}
	if attached != nil {
		b.Interface, b.Mode = attached.Interface, attached.Mode.String()
	}
	bare := make(map[meter.BenchSubject]float64) // ns
	var naive float64
	for _, r := range results {
		bare[r.BenchSubject] = r.Ns
		if r.BenchSubject == (meter.BenchSubject{Variant: meter.Naive}) {
			naive = r.Mpps
		}
	}
	inPlace := make(map[meter.BenchSubject]float64)
	for i, r := range results {
		l := benchLine{
			Variant: subjectName(r.BenchSubject), Sizes: r.Sizes, Flows: benchFlows[r.Flows], Sample: r.Sample,
			Packets: r.Packets, Mpps: r.Mpps, Ns: r.Ns, Spread: r.Spread,
			Adds: addsTo(r.BenchSubject, bare), Insns: r.Instructions, Hot: r.HotPath,
		}
		if naive > 0 && !r.Empty {
			l.SpeedUp = r.Mpps / naive
		}
		if r.Hardware {
			l.Cycles, l.Native = &r.Cycles, &r.NativeInstructions
		}
		if attached != nil {
			a := attached.Results[i]
			inPlace[a.BenchSubject] = a.Ns
			l.Attached = &attachedLine{a.Packets, a.Mpps, a.Ns, a.Spread, addsTo(a.BenchSubject, inPlace), a.CPU}
		}
		b.Results = append(b.Results, l)
	}
	return b
}

var benchFlows = map[meter.BenchFlows]string{meter.FewFlows: "few", meter.NewFlows: "new"}

func subjectName(s meter.BenchSubject) string {
	if s.Empty {
		return "empty"
	}
	return s.Variant.String()
}

// addsTo returns by how many ns a program is above the one that it adds something to.
func addsTo(s meter.BenchSubject, ns map[meter.BenchSubject]float64) float64 {
	base := meter.BenchSubject{Empty: true}
	if s.Sizes || s.Flows != meter.NoFlows || s.Sample > 0 {
		base = meter.BenchSubject{Variant: s.Variant}
	}
	return ns[s] - ns[base]
}

// label is the line's name in the table.
func (l *benchLine) label() string {
	switch {
	case l.Sizes:
		return l.Variant + " sizes"
	case l.Flows == benchFlows[meter.FewFlows]:
		return l.Variant + " flows"
	case l.Flows == benchFlows[meter.NewFlows]:
		return l.Variant + " new flow"
	case l.Sample > 0:
		return l.Variant + " 1/" + strconv.FormatUint(uint64(l.Sample), 10)
	}
	return l.Variant
}

// adds is the cell of what a line adds; the first line adds to nothing.
func (l *benchLine) adds(ns float64) string {
	if l.Variant == "empty" {
		return "-"
	}
	return fixed(ns, 1)
}

func (b *benchReport) writeTable(w io.Writer) {
	if b.Interface != "" {
		b.writeAttached(w)
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "Performance comparison on CPU %v, all at the same time\n", b.CPUs)
	t := &frame.Table{}
	t.Add("VARIANT", "PACKETS", "MPPS", "NS", "SPREAD", "ADDS", "SPEEDUP", "INSNS", "HOT", "CYCLES", "NATIVE")
	for _, l := range b.Results {
		speedUp := "-"
		if l.SpeedUp > 0 {
			speedUp = fixed(l.SpeedUp, 2) + "x"
		}
		t.Add(l.label(), strconv.FormatUint(l.Packets, 10), fixed(l.Mpps, 1), fixed(l.Ns, 1), fixed(100*l.Spread, 0)+" %", l.adds(l.Adds),
			speedUp, strconv.Itoa(l.Insns), numberOrDash(l.Hot), fixedOrDash(l.Cycles), fixedOrDash(l.Native))
	}
	t.Write(w)
}

// writeAttached prints what the programs take at the interface, beside what they take bare.
func (b *benchReport) writeAttached(w io.Writer) {
	fmt.Fprintln(w, frame.Shorten(escape.Text(fmt.Sprintf("At %s, XDP %s, by the kernel's run-time counters", b.Interface, b.Mode)), frame.MaxColumns))
	t := &frame.Table{}
	t.Add("VARIANT", "PACKETS", "MPPS", "NS", "SPREAD", "ADDS", "BARE ADDS", "CPU")
	for _, l := range b.Results {
		a := l.Attached
		t.Add(l.label(), strconv.FormatUint(a.Packets, 10), fixed(a.Mpps, 3), fixed(a.Ns, 1), fixed(100*a.Spread, 0)+" %",
			l.adds(a.Adds), l.adds(l.Adds), fixed(100*a.CPU, 1)+" %")
	}
	t.Write(w)
}

func fixed(x float64, digits int) string { return strconv.FormatFloat(x, 'f', digits, 64) }

func fixedOrDash(x *float64) string {
	if x == nil {
		return "-"
	}
	return fixed(*x, 1)
}

func numberOrDash(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}
