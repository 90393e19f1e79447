package cli

import (
	"io"
	"strconv"
	"time"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/meter"
)

// A report is what a counter command prints for one interval, in one of two forms.
type report interface {
	writeTable(w io.Writer) // whole lines of at most maxColumns
	object() any            // one object: embed intervalKeys
}

// intervalKeys are the keys that the JSON objects of all counter commands have.
type intervalKeys struct {
	Time     time.Time `json:"time"`       // end of the interval
	Interval float64   `json:"interval_s"` // the time of the rates, in seconds
	Elapsed  float64   `json:"elapsed_s"`  // the time of the cumulative counters, in seconds
}

func newIntervalKeys[S any](i meter.Interval[S]) intervalKeys {
	return intervalKeys{Time: i.End.UTC(), Interval: i.Took.Seconds(), Elapsed: i.Elapsed.Seconds()}
}

// A rate is a meter.Rate with the keys of JSON objects.
type rate struct {
	Packets uint64  `json:"packets"`
	Bytes   uint64  `json:"bytes"`
	PPS     float64 `json:"packets_per_s"`
	BPS     float64 `json:"bits_per_s"`
}

func newRate(r meter.Rate) rate { return rate{r.Packets, r.Bytes, r.PacketsPerSecond, r.BitsPerSecond} }

// rateColumns are the titles of cells.
var rateColumns = []string{"PACKETS", "BYTES", "PACKETS/S", "BIT/S"}

func (r rate) cells() []string {
	return []string{
		strconv.FormatUint(r.Packets, 10),
		strconv.FormatUint(r.Bytes, 10),
		frame.Scaled(r.PPS),
		frame.Scaled(r.BPS),
	}
}

// row is a line of a table: the names, then the cells.
func (r rate) row(names ...string) []string { return append(names, r.cells()...) }
