package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// Where files are, other than nowhere.
const (
	inMemory = "tmpfs"
	onDisk   = "disk"
)

// memoryDir is a directory of a tmpfs.
const memoryDir = "/dev/shm"

// shown is the path in the output, with the place instead of the file's name, which is new each
// time.
func shown(place string) string {
	if place == nowhere {
		return nowhere
	}
	return "FILE"
}

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

// dir returns the directory of the file that the tool writes.
func (t *tool) dir() string {
	for i, arg := range t.args {
		if arg == "-w" {
			return filepath.Dir(t.args[i+1])
		}
	}
	return ""
}

// fileTools are the runs of xdpcap that write to files.
func (p *program) fileTools() []tool {
	return append(named(p.tools(), sinkName(ring), ownName(ring)),
		p.tool(roomName, ring, xdp.Drop, "-i", rxName, "-B", "64M"))
}

// measureFiles measures the rate that unpaced traffic keeps, and the part that is captured, while
// the tools write to a file.
func (b *bench) measureFiles(ctx context.Context) (err error) {
	n, err := newNetwork(networkOptions{cpus: 1})
	if err != nil {
		return fmt.Errorf("network for files: %w", err)
	}
	defer func() { err = errors.Join(err, n.close()) }()
	for _, place := range []struct{ name, in string }{{inMemory, memoryDir}, {onDisk, b.disk}} {
		dir, err := newDir(place.name, place.in)
		if err != nil {
			return fmt.Errorf("files on a %s: %w", place.name, err)
		}
		// Long packets fill the memory soon.
		b.measureFilesIn(ctx, n, place.name, dir, testnet.MinFrame, b.bursts)
		b.measureFilesIn(ctx, n, place.name, dir, longSize, 1)
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) measureFilesIn(ctx context.Context, n *network, place, dir string, size, bursts int) {
	path := filepath.Join(dir, "out")
	var drop []float64
	all := b.entrants(n, (*program).fileTools, named(others(), tcpdumpName, dumpcapName))
	for _, e := range all {
		e.toFile(path)
	}
	for round := range b.fewRounds {
		for _, e := range all {
			progress("%d bytes to a %s, round %d of %d: %s", wireSize(size), place, round+1, b.fewRounds, e.row.Name)
			e.round(ctx, load{size: size, bursts: bursts, time: burstTime, beside: e.beside})
			if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) && e.row.Missing == "" {
				e.row.Missing = oneLine(err.Error())
			}
			if e.beside == n.drop {
				drop = e.besides
			}
		}
	}
	b.each(nil, func(r *Report) { r.Files = append(r.Files, Sheet{Bytes: wireSize(size), To: place}) })
	for _, e := range all {
		e.finish(n, median(drop))
	}
	b.addRows(all, func(r *Report) *Sheet { return &r.Files[len(r.Files)-1] })
}

// toFile makes an entrant write to a file.
func (e *entrant) toFile(path string) {
	e.isFile = true
	e.row.Command = e.tool.to(shown(onDisk)).commandLine()
	e.tool = e.tool.to(path)
}
