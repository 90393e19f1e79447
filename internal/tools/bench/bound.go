package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// copying measures the least that any capture at XDP does: an XDP program copies each packet's
// bytes into memory, and a thread on the other CPU reads them there once a millisecond. It has no
// clock and no records, and does not check whether the reader keeps up. The trial's CPU time is the
// thread's.
func (n *network) copying(ctx context.Context, verdict xdp.Verdict, w load) (t trial, err error) {
	r, err := testnet.AttachReceiver(n.pair.Rx, rxName, verdict, testnet.ReceiverOptions{Copy: true})
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	copies, err := r.Copies()
	if err != nil {
		return t, err
	}
	var stop atomic.Bool
	var readErr error
	var reader sync.WaitGroup
	var cpu time.Duration
	reader.Go(func() { cpu, readErr = takeCopies(copies, &stop) })
	t, err = w.run(ctx, n.lane)
	stop.Store(true)
	reader.Wait()
	t.captured, t.cpu = t.sent, cpu
	return t, errors.Join(err, readErr)
}

// takeCopies reads the copies until it is told to stop, and returns its CPU time.
func takeCopies(copies *testnet.Copies, stop *atomic.Bool) (cpu time.Duration, err error) {
	err = machine.Quiet(1, func() error {
		buffer := make([]byte, 256<<10)
		for !stop.Load() {
			n, err := copies.Take(buffer)
			if err != nil {
				return err
			}
			if n == 0 {
				time.Sleep(time.Millisecond)
			}
		}
		var err error
		cpu, err = machine.ThreadTime()
		return err
	})
	return cpu, err
}
