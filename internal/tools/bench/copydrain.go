package main

import (
	"errors"
	"os"
	"time"

	"github.com/cilium/ebpf"

	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// copyDrain measures the least that a reader of filled rings does: a thread copies what blocks of
// the file have in bytes out of as many rings, and writes it. The rings were filled by CPUs as for
// xdpcap. The rate counts only the longer of the two steps, as if two threads did them.
func copyDrain(d *drainage, path string, runs int) (all *laps, err error) {
	var opened closers
	defer func() { err = errors.Join(err, opened.close()) }()
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	opened.later(out.Close)
	if path != nowhere {
		opened.later(func() error { return os.Remove(path) })
	}
	var fillers []*ebpf.Program
	var rings []*testnet.Copies
	for range d.rings {
		pair, err := testnet.NewPair(testnet.PairOptions{})
		if err != nil {
			return nil, err
		}
		opened.later(pair.Close)
		r, err := testnet.AttachReceiver(pair.Rx, pair.RxName, xdp.Drop, testnet.ReceiverOptions{Copy: true})
		if err != nil {
			return nil, err
		}
		opened.later(r.Close)
		copies, err := r.Copies()
		if err != nil {
			return nil, err
		}
		fillers, rings = append(fillers, r.Program()), append(rings, copies)
	}
	all = &laps{}
	block := ebpf.RunOptions{Data: testnet.UDPFrame(blockSize(d.size), 0), Repeat: uint32(d.perRing())}
	for range runs {
		for cpu, p := range fillers {
			err := machine.Quiet(cpu, func() error { _, err := p.Run(&block); return err })
			if err != nil {
				return nil, err
			}
		}
		some := lap{packets: d.rings * d.perRing()}
		err := machine.Quiet(0, func() error {
			before, err := machine.ThreadTime()
			if err != nil {
				return err
			}
			if some.took, err = writeCopies(out, rings); err != nil {
				return err
			}
			after, err := machine.ThreadTime()
			some.cpu = after - before
			return err
		})
		if err != nil {
			return nil, err
		}
		all.all = append(all.all, some)
	}
	return all, nil
}

// writeCopies copies all out of rings and writes it. It returns the time of the slower one of the
// two.
func writeCopies(out *os.File, rings []*testnet.Copies) (time.Duration, error) {
	chunk := make([]byte, 256<<10)
	began, writing := time.Now(), time.Duration(0)
	for _, r := range rings {
		for {
			n, err := r.Take(chunk)
			if err != nil {
				return 0, err
			}
			if n == 0 {
				break
			}
			start := time.Now()
			if _, err := out.Write(chunk[:n]); err != nil {
				return 0, err
			}
			writing += time.Since(start)
		}
	}
	return max(writing, time.Since(began)-writing), nil
}
