package capture

import (
	"context"
	"errors"
	"iter"
)

// Run writes the session's packets to the outputs until ctx is done, Stop is called, Options.Count
// is reached, no hook sees packets any more, or an output fails. Run then detaches, takes the
// packets that are still in the rings, ends every output, closes the session and returns.
//
// It returns the accounts of the outputs, in their order. Packets that the session captured and an
// output did not take are lost in that output's accounts. The error is nil where the end was asked
// for. Otherwise it joins what ended the session or made one of its hooks blind, the first error of
// an output, and what went wrong while everything was released.
func (s *Session) Run(ctx context.Context, outputs ...Output) ([]Accounts, error) {
	defer context.AfterFunc(ctx, s.Stop)()
	begun, failed := s.begin(outputs)
	packets := make([]Packet, groupSize)
	if failed == nil {
		if s.throttle != nil {
			s.throttle.watch(outputs)
		}
		failed = s.write(outputs, packets)
	}
	if errors.Is(failed, ErrEnough) {
		s.notice(failed)
		failed = nil
	}
	s.Stop()
	if s.throttle != nil {
		s.throttle.close()
	}
	for err := error(nil); err == nil; {
		_, err = s.reader.read(packets)
	}
	final, err := s.Accounts()
	ended := errors.Join(s.ended(), err)
	accounts := make([]Accounts, len(outputs))
	for i, out := range outputs {
		if i >= begun {
			accounts[i] = final.Delivered(make(Accounts, len(final)))
			continue
		}
		accounts[i], err = out.End(final)
		if failed == nil {
			failed = err
		}
	}
	return accounts, errors.Join(ended, failed, s.Close())
}

// begin begins the outputs, and returns how many it has tried before one of them failed.
func (s *Session) begin(outputs []Output) (tried int, err error) {
	description := s.Description()
	for i, out := range outputs {
		if err := out.Begin(description); err != nil {
			return i + 1, err
		}
	}
	return len(outputs), nil
}

// write moves packets to the outputs until the session ends, and returns the error of an output.
// It needs memory for as many packets as are to be moved at a time.
func (s *Session) write(outputs []Output, packets []Packet) (err error) {
	s.reader.idle = func() {
		if err != nil {
			return
		}
		s.laps.lap(reading)
		if err = flush(outputs); err != nil {
			s.Stop()
		}
		s.laps.lap(writing)
	}
	defer func() { s.reader.idle = nil }()
	for {
		n, ended := s.reader.read(packets)
		if err != nil {
			return err
		}
		if ended != nil {
			return flush(outputs)
		}
		s.laps.lap(reading)
		for _, out := range outputs {
			if err := out.Write(packets[:n]); err != nil {
				return err
			}
		}
		s.laps.lap(writing)
	}
}

func flush(outputs []Output) error {
	var errs []error
	for _, out := range outputs {
		errs = append(errs, out.Flush())
	}
	return errors.Join(errs...)
}

// Packets returns the session's packets, each valid until the next one, until ctx is done or
// something else happens that would end Run. If that is an error, it comes last, without a packet.
// A loop that is left early leaves the session running. The caller must still call Close.
func (s *Session) Packets(ctx context.Context) iter.Seq2[*Packet, error] {
	return func(yield func(*Packet, error) bool) {
		defer context.AfterFunc(ctx, s.Stop)()
		packets := make([]Packet, groupSize)
		for {
			n, err := s.reader.read(packets)
			if err != nil {
				break
			}
			s.laps.lap(reading)
			for i := range packets[:n] {
				if !yield(&packets[i], nil) {
					return
				}
			}
			s.laps.lap(writing)
		}
		if err := s.ended(); err != nil {
			yield(nil, err)
		}
	}
}
