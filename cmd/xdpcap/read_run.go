package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/capfile"
	"github.com/xdpcap/xdpcap/internal/pcapng"
)

// A reading moves packets from files to sinks.
type reading struct {
	ctx   context.Context
	merge *capfile.Merge
	match *matcher // nil = all packets
	limit uint64   // packets that match; 0 = all
	sinks []readSink

	passed map[uint16]uint64 // packets by link type that no filter can be applied to
}

// run reads until the end, the limit or a signal. What was read before an error of a file is
// printed and written all the same.
func (r *reading) run() error {
	failed := r.move()
	if errors.Is(failed, errSink) {
		for _, s := range r.sinks {
			s.abort()
		}
		return quietly(failed)
	}
	errs := []error{failed}
	for _, s := range r.sinks {
		errs = append(errs, quietly(s.end()))
	}
	return errors.Join(errs...)
}

// errSink is the kind of error that a sink has.
var errSink = errors.New("the output does not take it")

// quietly leaves out the error that nobody reads what is printed any more.
func quietly(err error) error {
	if errors.Is(err, errNobodyReads) {
		return nil
	}
	return err
}

// A sinkError is an error of a sink.
type sinkError struct{ error }

func (e sinkError) Is(kind error) bool { return kind == errSink }
func (e sinkError) Unwrap() error      { return e.error }

// move hands on blocks.
func (r *reading) move() error {
	var taken uint64
	for n := 0; ; n++ {
		if n&0xff == 0 && r.ctx.Err() != nil {
			return nil
		}
		b, err := r.merge.Next()
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, context.Canceled):
			return nil
		case err != nil:
			return err
		case b.Kind == capfile.Packet && !r.matches(b):
			continue
		}
		for _, s := range r.sinks {
			if err := s.take(b); err != nil {
				return sinkError{err}
			}
		}
		if b.Kind == capfile.Packet {
			if taken++; taken == r.limit {
				return nil
			}
		}
	}
}

// flush hands over what was read so far, before the reading waits for more. A sink that cannot take
// it says so again when it is given the next block.
func (r *reading) flush() {
	for _, s := range r.sinks {
		s.flush()
	}
}

// matches tells whether the filter takes a packet.
func (r *reading) matches(b *capfile.Block) bool {
	switch {
	case r.match == nil:
		return true
	case isEthernet(b.Interface):
		return r.match.takes(b.Packet.Data, b.Packet.WireLen, b.Packet.Flags&pcapng.DirectionMask == pcapng.Outbound)
	}
	if r.passed == nil {
		r.passed = make(map[uint16]uint64)
	}
	r.passed[b.Interface.LinkType]++
	return false
}

// notices are what should be known of the reading besides its result.
func (r *reading) notices() (all []string) {
	for _, typ := range sortedKeys(r.passed) {
		all = append(all, fmt.Sprintf("passed over %s of %s: filters are for Ethernet", packets(r.passed[typ]), linkTypeName(typ)))
	}
	for _, s := range r.sinks {
		all = append(all, s.notices()...)
	}
	return all
}

func sortedKeys(m map[uint16]uint64) (keys []uint16) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// errNobodyReads is the kind of error that the reader of a pipe has gone away.
var errNobodyReads = unix.EPIPE
