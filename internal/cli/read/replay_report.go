package read

import (
	"fmt"
	"io"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/replay"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A ReplayReport is printed by replay. Times are in ns, above those of a program that does nothing.
type ReplayReport struct {
	ProgramKeys
	Against     *ProgramKeys            `json:"against,omitempty"` // the other program; nil = the verdicts in the capture
	Verdicts    map[string]*replayTally `json:"verdicts"`
	Total       *replayTally            `json:"total"`
	Compared    uint64                  `json:"compared"` // packets with a verdict to compare with
	Different   uint64                  `json:"different"`
	Differences []replayDifference      `json:"differences,omitempty"`
	Expected    []replayExpectation     `json:"expected,omitempty"`
	Left        map[string]uint64       `json:"left,omitempty"`    // packets that were not run, by notRunReasons
	Cut         uint64                  `json:"cut,omitempty"`     // packets that the capture has cut
	AsLeft      uint64                  `json:"as_left,omitempty"` // packets that the capture has only after its program
	sent        bool                    // --sent
}

// ProgramKeys name a program.
type ProgramKeys struct {
	Program string `json:"program"`
	ID      uint32 `json:"program_id"`
	File    string `json:"program_file,omitempty"` // the object file that it was loaded from
}

func newProgramKeys(p *replay.Program) ProgramKeys {
	return ProgramKeys{p.Named.Name, p.Named.ID, p.File}
}

// String names the program, for a terminal.
func (k ProgramKeys) String() string {
	p := replay.Program{Named: xdp.Program{ID: k.ID, Name: k.Program}, File: k.File}
	return message.Escape(p.String())
}

type replayTally struct {
	Packets uint64        `json:"packets"`
	Bytes   uint64        `json:"bytes"`
	Changed uint64        `json:"changed"`
	Median  time.Duration `json:"p50_ns"`
	P99     time.Duration `json:"p99_ns"`
	Max     time.Duration `json:"max_ns"`
}

type replayDifference struct {
	Was        string       `json:"was"`
	Now        string       `json:"now"`
	OtherBytes bool         `json:"other_bytes,omitempty"` // the same verdict, and other bytes
	Packets    uint64       `json:"packets"`
	First      time.Time    `json:"first"`
	Flows      []replayFlow `json:"flows"` // the ones with most packets
}

type replayFlow struct {
	FlowKeys
	Packets uint64 `json:"packets"`
}

type replayExpectation struct {
	Line    int    `json:"line"`
	Filter  string `json:"filter"`
	Verdict string `json:"verdict"`
	Packets uint64 `json:"packets"`
	Wrong   uint64 `json:"wrong"`
}

func newReplayReport(o *replayOptions, from *replay.Result) *ReplayReport {
	r := &ReplayReport{
		ProgramKeys: newProgramKeys(o.options.Program), Verdicts: make(map[string]*replayTally), Total: newReplayTally(&from.Total),
		Compared: from.Compared, Cut: from.Cut, AsLeft: from.AsLeft, sent: o.sent,
	}
	if o.options.Against != nil {
		against := newProgramKeys(o.options.Against)
		r.Against = &against
	}
	for v := range from.Verdicts {
		if t := &from.Verdicts[v]; t.Packets > 0 {
			r.Verdicts[xdp.Verdict(v).SlotName()] = newReplayTally(t)
		}
	}
	for i := range from.Differences {
		d := &from.Differences[i]
		one := replayDifference{d.Was.String(), d.Now.String(), d.OtherBytes, d.Packets, d.First.UTC(), []replayFlow{}}
		for _, f := range d.Flows {
			one.Flows = append(one.Flows, replayFlow{newFlowKeys(f.Flow), f.Packets})
		}
		r.Different += d.Packets
		r.Differences = append(r.Differences, one)
	}
	if o.options.Expect != nil {
		for _, e := range o.options.Expect.All {
			r.Expected = append(r.Expected, replayExpectation{e.Line, e.Filter, e.Verdict.String(), e.Packets, e.Wrong})
		}
	}
	r.Left = map[string]uint64{
		"not_received": from.NotRun.NotReceived, "not_ethernet": from.NotRun.NotEthernet, "too_short": from.NotRun.Short, "too_long": from.NotRun.Long,
	}
	maps.DeleteFunc(r.Left, func(_ string, packets uint64) bool { return packets == 0 })
	return r
}

// notRunReasons are the keys of Left, with the words of a remark.
var notRunReasons = []struct{ key, text string }{
	{"not_received", "sent or thrown away"}, // with --sent: received
	{"not_ethernet", "without an Ethernet header"},
	{"too_short", "shorter than 14 bytes"},
	{"too_long", "longer than 65535 bytes"},
}

func newReplayTally(t *replay.Tally) *replayTally {
	return &replayTally{t.Packets, t.Bytes, t.Changed, t.Times.Quantile(0.5), t.Times.Quantile(0.99), t.Times.Max}
}

// WriteTable prints the report as tables.
func (r *ReplayReport) WriteTable(w io.Writer) {
	fmt.Fprintf(w, "%s, in ns per packet above a program that does nothing\n", r.ProgramKeys)
	t := &frame.Table{}
	t.Add("VERDICT", "PACKETS", "SHARE", "BYTES", "CHANGED", "P50", "P99", "MAX")
	add := func(name string, l *replayTally) {
		share := "-"
		if r.Total.Packets > 0 {
			share = fmt.Sprintf("%.1f %%", 100*float64(l.Packets)/float64(r.Total.Packets))
		}
		t.Add(name, count(l.Packets), share, count(l.Bytes), count(l.Changed), nanoseconds(l.Median), nanoseconds(l.P99), nanoseconds(l.Max))
	}
	for _, name := range verdictOrder {
		if l := r.Verdicts[name]; l != nil {
			add(name, l)
		}
	}
	add("total", r.Total)
	t.Write(w)
	r.writeDifferences(w)
	for _, line := range r.remarks() {
		fmt.Fprintln(w, line)
	}
}

func count(n uint64) string              { return strconv.FormatUint(n, 10) }
func nanoseconds(d time.Duration) string { return strconv.FormatInt(d.Nanoseconds(), 10) }

// writeDifferences prints the differences from the capture, or from the other program.
func (r *ReplayReport) writeDifferences(w io.Writer) {
	with := "the verdicts in the capture"
	if r.Against != nil {
		with = r.Against.String()
	}
	switch {
	case r.Compared == 0:
		fmt.Fprintln(w, "Nothing to compare with: the capture has no verdicts. A capture with --rx-capture entry,exit has them; --against compares with a program.")
		return
	case r.Different == 0:
		fmt.Fprintf(w, "The same as %s: %d of %d packets.\n", with, r.Compared, r.Compared)
		return
	}
	fmt.Fprintf(w, "Different from %s: %d of %d packets\n", with, r.Different, r.Compared)
	t := &frame.Table{Left: 2}
	t.Add("WAS", "NOW", "FIRST", "PACKETS", "FLOW WITH MOST", "")
	for _, d := range r.Differences {
		now := d.Now
		if d.OtherBytes {
			now += ", other bytes"
		}
		cells := []string{d.Was, now, d.First.Local().Format("15:04:05.000000"), count(d.Packets)}
		if len(d.Flows) > 0 {
			f := d.Flows[0]
			from, to := f.ends(endWidth)
			cells = append(cells, f.Protocol+" "+from+" > "+to, count(f.Packets))
		}
		t.Add(cells...)
	}
	t.Write(w)
}

// remarks are sentences below the tables.
func (r *ReplayReport) remarks() (lines []string) {
	var left []string
	for _, reason := range notRunReasons {
		if n := r.Left[reason.key]; n > 0 {
			text := reason.text
			if r.sent {
				text = strings.Replace(text, "sent or", "received or", 1)
			}
			left = append(left, fmt.Sprintf("%d %s", n, text))
		}
	}
	if left != nil {
		lines = append(lines, "Not run: "+strings.Join(left, ", ")+".")
	}
	if r.Left["not_received"] > 0 && !r.sent {
		lines = append(lines, "--sent runs those sent, for a capture at the sender.")
	}
	if r.Cut > 0 {
		lines = append(lines, fmt.Sprintf("%s were cut by the capture: the program saw only their beginning.", frame.Packets(r.Cut)))
	}
	if r.AsLeft > 0 {
		lines = append(lines, fmt.Sprintf("%s: the capture has them only as its program left them; --rx-capture entry,exit has both.", frame.Packets(r.AsLeft)))
	}
	for _, e := range r.Expected {
		if e.Wrong == 0 && e.Packets > 0 {
			lines = append(lines, fmt.Sprintf("As expected: %s, %s: %s.", e.Filter, e.Verdict, frame.Packets(e.Packets)))
		}
	}
	return lines
}
