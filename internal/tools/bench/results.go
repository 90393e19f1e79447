package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/aclements/go-moremath/stats"
	"golang.org/x/perf/benchfmt"
	"golang.org/x/perf/benchmath"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// The units of the measurements. A benchmark's iterations are packets or, of a program's cost,
// runs.
const (
	unitPPS         = "pps"       // packets per second
	unitNsPacket    = "ns/packet" // CPU time
	unitKeeps       = "keeps"     // the part of its rate that traffic keeps beside a tool
	unitCaptured    = "captured"  // the part of the packets that the filter and the sampling select
	unitLost        = "lost"      // packets
	unitOfDrop      = "of-drop"   // a rate, divided by that under XDP_DROP without a capture
	unitBytesSecond = "B/s"       // of a TCP connection
	unitScale       = "scale"     // two CPUs' rate by twice one's, by the same of an empty program
)

// better says for each unit whether higher values are better, or lower ones.
var better = map[string]string{
	unitPPS: "higher", unitBytesSecond: "higher", unitKeeps: "higher", unitCaptured: "higher", unitOfDrop: "higher", unitScale: "higher", unitNsPacket: "lower", unitLost: "lower",
}

// Results are measurements, each a line in Go's benchmark format. The promises, the chart and the
// documents are made of them alone.
type results struct {
	head   map[string]string               // about the machine, by the key of its line
	values map[string]map[string][]float64 // by a benchmark's name and unit
	out    io.Writer                       // for lines, while they are measured
}

// A row is a benchmark that is measured several times, each time a line.
type row struct {
	name    string   // the benchmark's
	command string   // how the tool was started; "": no tool
	of      *program // nil: not of xdpcap
	measure func(testnet.TB) *benchfmt.Result
	skipped bool
}

// measure measures rows alternately, in rounds. A row that fails is not measured again, and one
// that was not chosen not at all.
func (b *bench) measure(ctx context.Context, rounds int, rows []*row) {
	for round := range rounds {
		for _, r := range rows {
			r.skipped = r.skipped || !b.chosen.MatchString(r.name)
			if r.skipped {
				continue
			}
			var result *benchfmt.Result
			err := ctx.Err()
			if err == nil {
				err = testnet.Try(ctx, func(t testnet.TB) { result = r.measure(t) })
			}
			if ctx.Err() != nil {
				err = errors.New("no time was left")
			}
			r.skipped = err != nil
			b.each(r.of, func(to *results) {
				if err != nil {
					to.skip(r.name, err)
					return
				}
				if round == 0 && r.command != "" {
					fmt.Fprintf(to.out, "# %s: %s\n", r.name, r.command)
				}
				result.Name = benchfmt.Name(r.name)
				benchfmt.NewWriter(to.out).Write(result)
				to.add(result)
			})
		}
	}
}

// named makes the name of a benchmark, which has no spaces.
func named(parts ...string) string { return strings.ReplaceAll(strings.Join(parts, "/"), " ", "_") }

func bytesOf(size int) string { return fmt.Sprintf("bytes=%d", wireSize(size)) }

// measured makes a line. A value that is NaN is left out.
func measured(packets int, values ...benchfmt.Value) *benchfmt.Result {
	r := &benchfmt.Result{Iters: packets}
	for _, v := range values {
		if !math.IsNaN(v.Value) {
			const digits = 8 // shows one lost packet of 10 million
			v.Value, _ = strconv.ParseFloat(strconv.FormatFloat(v.Value, 'g', digits, 64), 64)
			r.Values = append(r.Values, v)
		}
	}
	return r
}

func of(x float64, unit string) benchfmt.Value { return benchfmt.Value{Value: x, Unit: unit} }

// skip writes why a row, or several, have no line: in the form of go test.
func (r *results) skip(name string, err error) {
	fmt.Fprintf(r.out, "--- SKIP: %s: %s\n", name, oneLine(err.Error()))
}

func (r *results) add(line *benchfmt.Result) {
	name := string(line.Name)
	if r.values == nil {
		r.values = map[string]map[string][]float64{}
	}
	if r.values[name] == nil {
		r.values[name] = map[string][]float64{}
	}
	for _, v := range line.Values {
		if v.OrigUnit != "" {
			v.Value, v.Unit = v.OrigValue, v.OrigUnit // benchfmt made seconds of nanoseconds
		}
		r.values[name][v.Unit] = append(r.values[name][v.Unit], v.Value)
	}
}

// figure returns the median of the measured values, NaN without any.
func (r *results) figure(name, unit string) float64 { return median(r.values[name][unit]) }

func median(xs []float64) float64 {
	if len(xs) == 0 {
		return math.NaN()
	}
	return benchmath.AssumeNothing.Summary(benchmath.NewSample(xs, &benchmath.DefaultThresholds), 0.95).Center
}

// quartile returns the lower quartile.
func quartile(xs []float64) float64 { return stats.Sample{Xs: xs}.Quantile(0.25) }

func readResults(path string) (*results, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := &results{head: map[string]string{}}
	lines := benchfmt.NewReader(bytes.NewReader(text), path)
	for lines.Scan() {
		switch line := lines.Result().(type) {
		case *benchfmt.Result:
			for _, c := range line.Config {
				r.head[c.Key] = string(c.Value)
			}
			r.add(line)
		case *benchfmt.SyntaxError:
			return nil, line
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(r.values) == 0 {
		return nil, fmt.Errorf("%s: no line of a benchmark", path)
	}
	return r, nil
}
