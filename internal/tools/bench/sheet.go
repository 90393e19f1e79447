package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"

	"golang.org/x/perf/benchfmt"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A sheet is traffic at one frame size in which entrants are measured in turn.
type sheet struct {
	size int
	cpus int    // that receive; 0: 1
	to   string // where the file is: inMemory or onDisk; "": nowhere

	rounds, bursts int
	halvings       int // of the search for the highest rate without loss; 0: no search
}

// Where files are.
const (
	inMemory = "tmpfs"
	onDisk   = "disk"
)

// name is that of an entrant's benchmark: unpaced traffic, or the highest rate without loss.
func (s sheet) name(benchmark, entrant string) string {
	return named(benchmark, entrant, fmt.Sprintf("cpus=%d", max(s.cpus, 1)), "to="+placed(s.to), bytesOf(s.size))
}

func unpaced(entrant string, size int) string  { return sheet{size: size}.name("Unpaced", entrant) }
func lossless(entrant string, size int) string { return sheet{size: size}.name("Lossless", entrant) }

// placed is where a file is, in a name that has no slash.
func placed(to string) string {
	if to == "" || to == nowhere {
		return "nowhere"
	}
	return to
}

// measureSheet measures entrants in unpaced traffic, and then their highest rates without loss.
func (b *bench) measureSheet(t testnet.TB, n *network, s sheet, entrants []entrant) {
	var rows, rates []*row
	for _, e := range entrants {
		rows = append(rows, &row{name: s.name("Unpaced", e.name), command: e.command, of: e.of, measure: func(t testnet.TB) *benchfmt.Result {
			return e.try(t, load{size: s.size, bursts: s.bursts, time: burstTime, beside: e.beside}).line()
		}})
	}
	b.measure(t.Context(), s.rounds, rows)
	for i, e := range entrants {
		if s.halvings == 0 || rows[i].skipped {
			continue
		}
		known := &b.programs[0].results
		if e.of != nil {
			known = &e.of.results
		}
		rates = append(rates, &row{name: s.name("Lossless", e.name), of: e.of,
			measure: func(t testnet.TB) *benchfmt.Result { return s.lossless(t, n, known, e) }})
	}
	b.measure(t.Context(), 1, rates)
}

// lossless returns the highest rate without loss: that of unpaced traffic, if most rounds had no
// loss; else it is searched for beside bursts under XDP_DROP.
func (s sheet) lossless(t testnet.TB, n *network, known *results, e entrant) *benchfmt.Result {
	at := s.name("Unpaced", e.name)
	top := known.figure(at, unitPPS)
	if loss := known.figure(at, unitLost); math.IsNaN(loss) || loss == 0 {
		part := known.figure(at, unitKeeps)
		if e.verdict != xdp.Drop {
			part = top / known.figure(s.name("Unpaced", dropName), unitPPS)
		}
		return measured(1, of(top, unitPPS), of(part, unitOfDrop), of(known.figure(at, unitNsPacket), unitNsPacket))
	}
	var drop []float64
	cpu, packets := math.NaN(), 1
	rate := highestRate(top, s.halvings, func(rate float64) (float64, bool) {
		beside := load{size: s.size, bursts: 1, time: burstTime}.run(t, n.drop)
		drop = append(drop, beside.rates...)
		r := e.try(t, load{size: s.size, rate: rate, bursts: 1, time: longTime})
		if r.lost == 0 {
			cpu, packets = r.cpuPerPacket(), int(r.sent) // the last one is at the highest rate
		}
		return median(r.rates), r.lost == 0
	})
	return measured(packets, of(rate, unitPPS), of(rate/median(drop), unitOfDrop), of(cpu, unitNsPacket))
}

// highestRate searches for the highest rate without loss by bisection between 0 and top, at which
// there is loss. It halves that interval `halvings` times. try reports whether there is loss at a
// rate, and which rate was reached. The result is a rate that was tried, or 0 if all had loss.
func highestRate(top float64, halvings int, try func(rate float64) (reached float64, isLossless bool)) float64 {
	low, high := 0.0, top
	for range halvings {
		middle := (low + high) / 2
		reached, isLossless := try(middle)
		if isLossless {
			low = max(low, min(reached, middle))
		} else {
			high = middle
		}
	}
	return low
}

// measureFrames returns a measurement of all tools at a frame size, and before it of those
// configurations of xdpcap that have this size.
func (b *bench) measureFrames(size int) func(testnet.TB) {
	return func(t testnet.TB) {
		n := newNetwork(t, networkOptions{isJumbo: size == jumboSize})
		s := sheet{size: size, rounds: b.fewRounds, bursts: b.bursts}
		b.measureSheet(t, n, s, b.entrants(n, nowhere, func(p *program) []tool { return p.configTools(size) }, nil))
		s.halvings = b.fewHalvings
		if size == shortSize || size == longSize {
			s.rounds, s.halvings = b.rounds, b.halvings
		}
		other := others()
		if size == smallSize {
			other = pick(other, tcpdumpName, dumpcapName) // the most usual ones; it takes time
		}
		b.measureSheet(t, n, s, append(n.alone(), b.entrants(n, nowhere, (*program).tools, other)...))
	}
}

// measureFiles measures the rate that unpaced traffic keeps, and the part that is captured, while
// the tools write to a file.
func (b *bench) measureFiles(t testnet.TB) {
	n := newNetwork(t, networkOptions{})
	for _, at := range []struct{ place, parent string }{{inMemory, memoryDir}, {onDisk, b.disk}} {
		testnet.Within(t, func(t testnet.TB) {
			all := b.entrants(n, filepath.Join(newDir(t, at.place, at.parent), "out"), (*program).fileTools, pick(others(), tcpdumpName, dumpcapName))
			b.measureSheet(t, n, sheet{size: shortSize, to: at.place, rounds: b.fewRounds, bursts: b.bursts}, all)
			// Long packets fill the memory soon.
			b.measureSheet(t, n, sheet{size: longSize, to: at.place, rounds: b.fewRounds, bursts: 1}, all)
		})
	}
}

// memoryDir is a directory of a tmpfs.
const memoryDir = "/dev/shm"

// newDir makes a directory inside another one, which must be at this place, until t ends.
func newDir(t testnet.TB, place, parent string) string {
	var fs unix.Statfs_t
	testnet.Must(t, unix.Statfs(parent, &fs))
	if (fs.Type == unix.TMPFS_MAGIC) != (place == inMemory) {
		t.Fatalf("%s is no directory on a %s", parent, place)
	}
	dir, err := os.MkdirTemp(parent, "xdpcap-bench-")
	testnet.Must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	testnet.Must(t, os.Chmod(dir, 0o777)) // tcpdump may write as a user of its own
	return dir
}
