package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"golang.org/x/perf/benchfmt"
	"golang.org/x/sys/unix"

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
func (b *bench) measureSheet(ctx context.Context, n *network, s sheet, entrants []entrant) {
	var rows, rates []*row
	for _, e := range entrants {
		rows = append(rows, &row{name: s.name("Unpaced", e.name), command: e.command, of: e.of,
			measure: func(ctx context.Context) (*benchfmt.Result, error) {
				t, err := e.try(ctx, load{size: s.size, bursts: s.bursts, time: burstTime, beside: e.beside})
				return t.line(), err
			}})
	}
	b.measure(ctx, s.rounds, rows)
	for i, e := range entrants {
		if s.halvings == 0 || rows[i].failed {
			continue
		}
		known := &b.programs[0].results
		if e.of != nil {
			known = &e.of.results
		}
		rates = append(rates, &row{name: s.name("Lossless", e.name), of: e.of,
			measure: func(ctx context.Context) (*benchfmt.Result, error) { return s.lossless(ctx, n, known, e) }})
	}
	b.measure(ctx, 1, rates)
}

// lossless returns the highest rate without loss: that of unpaced traffic, if most rounds had no
// loss; else it is searched for beside bursts under XDP_DROP.
func (s sheet) lossless(ctx context.Context, n *network, known *results, e entrant) (*benchfmt.Result, error) {
	at := s.name("Unpaced", e.name)
	top := known.figure(at, pps)
	if loss := known.figure(at, lost); math.IsNaN(loss) || loss == 0 {
		part := known.figure(at, keeps)
		if e.verdict != xdp.Drop {
			part = top / known.figure(s.name("Unpaced", dropName), pps)
		}
		return measured(1, of(top, pps), of(part, ofDrop), of(known.figure(at, nsPacket), nsPacket)), nil
	}
	var drop []float64
	cpu, packets := math.NaN(), 1
	rate, err := highestRate(top, s.halvings, func(rate float64) (float64, bool, error) {
		beside, err := load{size: s.size, bursts: 1, time: burstTime}.run(ctx, n.drop)
		if err != nil {
			return 0, false, err
		}
		drop = append(drop, beside.rates...)
		t, err := e.try(ctx, load{size: s.size, rate: rate, bursts: 1, time: longTime})
		if err == nil && t.lost == 0 {
			cpu, packets = t.cpuPerPacket(), int(t.sent) // the last one is at the highest rate
		}
		return median(t.rates), t.lost == 0, err
	})
	return measured(packets, of(rate, pps), of(rate/median(drop), ofDrop), of(cpu, nsPacket)), err
}

// highestRate searches for the highest rate without loss by bisection between 0 and top, at which
// there is loss. It halves that interval `halvings` times. try reports whether there is loss at a
// rate, and which rate was reached. The result is a rate that was tried, or 0 if all had loss.
func highestRate(top float64, halvings int, try func(rate float64) (real float64, lossless bool, err error)) (float64, error) {
	low, high := 0.0, top
	for range halvings {
		middle := (low + high) / 2
		real, lossless, err := try(middle)
		if err != nil {
			return 0, err
		}
		if lossless {
			low = max(low, min(real, middle))
		} else {
			high = middle
		}
	}
	return low, nil
}

// measureFrames measures all tools at each frame size, the most important ones first, and there the
// configurations of xdpcap.
func (b *bench) measureFrames(ctx context.Context) error {
	for _, size := range []int{shortSize, longSize, smallSize, middleSize, jumboSize} {
		n, err := newNetwork(networkOptions{jumbo: size == jumboSize, cpus: 1})
		if err != nil {
			return fmt.Errorf("network for frames of %d bytes: %w", wireSize(size), err)
		}
		s := sheet{size: size, rounds: b.fewRounds, bursts: b.bursts}
		b.measureSheet(ctx, n, s, b.entrants(n, nowhere, func(p *program) []tool { return p.configTools(size) }, nil))
		s.halvings = b.fewHalvings
		if size == shortSize || size == longSize {
			s.rounds, s.halvings = b.rounds, b.halvings
		}
		other := others()
		if size == smallSize {
			other = pick(other, tcpdumpName, dumpcapName) // the most usual ones; it takes time
		}
		b.measureSheet(ctx, n, s, append(n.alone(), b.entrants(n, nowhere, (*program).tools, other)...))
		if err := n.close(); err != nil {
			return err
		}
	}
	return nil
}

// measureFiles measures the rate that unpaced traffic keeps, and the part that is captured, while
// the tools write to a file.
func (b *bench) measureFiles(ctx context.Context) (err error) {
	n, err := newNetwork(networkOptions{cpus: 1})
	if err != nil {
		return fmt.Errorf("network for files: %w", err)
	}
	defer func() { err = errors.Join(err, n.close()) }()
	for _, at := range []struct{ place, in string }{{inMemory, memoryDir}, {onDisk, b.disk}} {
		dir, err := newDir(at.place, at.in)
		if err != nil {
			return fmt.Errorf("files on a %s: %w", at.place, err)
		}
		all := b.entrants(n, filepath.Join(dir, "out"), (*program).fileTools, pick(others(), tcpdumpName, dumpcapName))
		b.measureSheet(ctx, n, sheet{size: shortSize, to: at.place, rounds: b.fewRounds, bursts: b.bursts}, all)
		// Long packets fill the memory soon.
		b.measureSheet(ctx, n, sheet{size: longSize, to: at.place, rounds: b.fewRounds, bursts: 1}, all)
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return nil
}

// memoryDir is a directory of a tmpfs.
const memoryDir = "/dev/shm"

// newDir makes a directory inside another one, which must be at this place.
func newDir(place, in string) (string, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(in, &fs); err != nil {
		return "", fmt.Errorf("%s: %w", in, err)
	}
	if (fs.Type == unix.TMPFS_MAGIC) != (place == inMemory) {
		return "", fmt.Errorf("%s is no directory on a %s", in, place)
	}
	dir, err := os.MkdirTemp(in, "xdpcap-bench-")
	if err != nil {
		return "", err
	}
	// tcpdump may write as a user of its own.
	return dir, os.Chmod(dir, 0o777)
}
