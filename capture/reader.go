package capture

import (
	"io"
	"math"
	"sync/atomic"
	"time"
)

const (
	// A packet waits at most this long in a ring that does not fill up.
	flushInterval = 50 * time.Millisecond
	// A program may be held up between taking its time stamp and sending its record. A record is
	// handed over only when it is older than this, so that earlier records of other CPUs have
	// arrived. A packet that was held up for longer gets the time of the packet before it in the
	// session.
	settleTime = time.Millisecond
	// After detaching, the reader waits at most this long for records that the programs have
	// counted as sent.
	settleLimit = time.Second
)

// A reader takes the packets out of the rings, in the order of their time stamps, and counts them.
// It belongs to one goroutine.
type reader struct {
	merge     merge
	clock     wallClock
	ledger    *ledger
	poller    *poller
	immediate bool // Options.Immediate

	// detached is when the last program was detached, in CLOCK_MONOTONIC ns; 0 = not yet.
	detached *atomic.Int64
	// programs reads what the programs counted of each source.
	programs func() ([]programAccount, error)
	// stop detaches. gone detaches, too, and notes which interface has left.
	stop func()
	gone func(index int)
	// notice tells the user what does not end the session.
	notice func(error)

	err error // what read returns from now on
}

// read waits for the next packet and puts it into p. When the programs are detached it returns the
// packets that were on their way, and then io.EOF. It allocates nothing.
func (r *reader) read(p *Packet) error {
	for {
		if r.err != nil {
			return r.err
		}
		if !r.merge.isReady() {
			r.err = r.round()
			continue
		}
		if r.take(p) {
			return nil
		}
	}
}

// take fills p with the oldest packet. It reports false for one that is not to be handed over.
func (r *reader) take(p *Packet) bool {
	c := r.merge.first()
	taken := r.ledger.take(c.rec.Source, len(c.data))
	if taken {
		c.packet(p, r.clock.stamp(c.rec.TimeNs))
		p.ClockSetBack, r.clock.setBack = r.clock.setBack, 0
	}
	r.merge.next()
	if taken && r.ledger.isFull() {
		r.stop()
	}
	return taken
}

// round waits until there is a packet whose place in the order is final, or the session has ended.
func (r *reader) round() error {
	r.ledger.publish()
	r.merge.release()
	for {
		// This is read before the rings are looked into, so that everything that the programs sent
		// before they were detached is found below.
		detached := r.detached.Load()
		now, wasSet, err := r.clock.Read()
		if err != nil {
			return err
		}
		settled := now - int64(settleTime)
		r.merge.horizon = uint64(settled)
		drain := detached != 0 && detached < settled
		if drain {
			r.merge.horizon = math.MaxUint64
		}
		if wasSet { // packets from before the wall clock was set have its old time
			r.merge.horizon = uint64(min(settled, r.clock.Until))
		}
		r.merge.gather()
		switch {
		case r.merge.isReady():
			return nil
		case wasSet && r.clock.Until < settled:
			if back := r.clock.follow(); back != nil {
				r.notice(back)
			}
		case wasSet:
			time.Sleep(settleTime)
		case drain && (r.isSettled() || now-detached > int64(settleLimit)):
			return r.end()
		case detached != 0:
			time.Sleep(settleTime)
		default:
			if err := r.wait(); err != nil {
				return err
			}
		}
	}
}

// wait sleeps until a ring has filled up to its watermark, it is time to look anyway, an interface
// has gone, or the session was stopped.
func (r *reader) wait() error {
	timeout := flushInterval
	if r.immediate && len(r.merge.order) > 0 || r.merge.isFilling() {
		timeout = settleTime
	}
	gone, err := r.poller.wait(timeout)
	if err != nil {
		return err
	}
	if gone != 0 {
		r.gone(gone)
	}
	return nil
}

// isSettled tells whether every record that the programs sent has been taken out of the rings.
func (r *reader) isSettled() bool {
	programs, err := r.programs()
	return err == nil && r.ledger.isSettled(programs)
}

// end closes the account.
func (r *reader) end() error {
	programs, err := r.programs()
	if err != nil {
		return err
	}
	r.ledger.close(programs)
	return io.EOF
}
