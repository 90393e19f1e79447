package main

import (
	"os"
	"time"

	"github.com/cilium/ebpf"

	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// copyDrain measures the least that a reader of filled rings does: a thread copies as many bytes as
// the blocks of the file have out of as many rings, and writes them. The rings were filled by CPUs
// as for xdpcap. The rate counts only the longer of the two steps, as if two threads did them.
func copyDrain(t testnet.TB, d *drainage, path string, runs int) *laps {
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	testnet.Must(t, err)
	t.Cleanup(func() {
		out.Close()
		if path != nowhere {
			os.Remove(path)
		}
	})
	var fillers []*ebpf.Program // fillers[i] runs on CPU i, and fills rings[i]
	var rings []*testnet.Copies
	for range d.rings {
		r := testnet.MustReceiver(t, testnet.MustPair(t, testnet.PairOptions{}), xdp.Drop, testnet.ReceiverOptions{Copy: true})
		copies, err := r.Copies()
		testnet.Must(t, err)
		fillers, rings = append(fillers, r.Program()), append(rings, copies)
	}
	all := &laps{}
	block := ebpf.RunOptions{Data: testnet.UDPFrame(blockSize(d.size), 0), Repeat: uint32(d.perRing())}
	for range runs {
		for cpu, p := range fillers {
			testnet.Must(t, machine.Quiet(cpu, func() error { _, err := p.Run(&block); return err }))
		}
		l := lap{packets: d.rings * d.perRing()}
		testnet.Must(t, machine.Quiet(0, func() error {
			before, err := machine.ThreadTime()
			if err != nil {
				return err
			}
			if l.took, err = writeCopies(out, rings); err != nil {
				return err
			}
			after, err := machine.ThreadTime()
			l.cpu = after - before
			return err
		}))
		all.full = append(all.full, l)
	}
	return all
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
