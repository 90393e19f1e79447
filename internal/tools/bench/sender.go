package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// jumboSize is the size of frames that only a packet socket sends: the kernel's live frames must
// fit into a page.
const jumboSize = 8996

func newSender(pair *testnet.Pair, cpu int, jumbo bool) (sender, error) {
	if jumbo {
		s, err := testnet.NewSender(pair.Tx, pair.TxName)
		return &socketSender{s, pair, cpu}, err
	}
	g, err := testnet.NewGenerator(pair)
	return &liveSender{g, cpu}, err
}

// A liveSender sends the kernel's live frames.
type liveSender struct {
	*testnet.Generator
	cpu int
}

func (s *liveSender) run(ctx context.Context, size int, rate float64) (testnet.Result, error) {
	return s.Run(ctx, testnet.GeneratorOptions{Frame: testnet.UDPFrame(size, 0), Rate: rate, CPU: s.cpu})
}

// A socketSender sends frames of any size through a packet socket, with one system call each.
type socketSender struct {
	*testnet.Sender
	pair *testnet.Pair
	cpu  int
}

func (s *socketSender) run(ctx context.Context, size int, rate float64) (r testnet.Result, err error) {
	before, err := s.pair.Stats()
	if err != nil {
		return r, err
	}
	var sent uint64
	err = machine.Quiet(s.cpu, func() (err error) {
		frame := testnet.UDPFrame(size, 0)
		start := time.Now()
		for ctx.Err() == nil {
			// A frame that found no room is not sent again. At rate 0, the rate counts what gets
			// through.
			if err := s.Send(frame); err != nil && !errors.Is(err, unix.ENOBUFS) {
				return err
			}
			sent++
			if rate > 0 {
				for due := time.Duration(float64(sent) / rate * 1e9); time.Since(start) < due; {
				}
			}
		}
		r.Elapsed = time.Since(start)
		return nil
	})
	if err != nil {
		return r, err
	}
	// The driver counts a frame once the receiving side has taken it.
	for deadline := time.Now().Add(testnet.Patience); ; time.Sleep(time.Millisecond) {
		now, err := s.pair.Stats()
		if err != nil {
			return r, err
		}
		r.Sent = now.Delivered - before.Delivered
		if r.Sent+now.Dropped-before.Dropped >= sent {
			return r, nil
		}
		if time.Now().After(deadline) {
			return r, fmt.Errorf("of %d frames only %d arrived", sent, r.Sent)
		}
	}
}
