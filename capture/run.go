package capture

import (
	"context"
	"errors"
	"io"
	"iter"
	"slices"

	"github.com/xdpcap/xdpcap/capture/internal/laps"
)

// An Input is where [Run] takes packets from: a live [Session], or capture files (package file).
// One that wraps another, to change its packets, returns that by Unwrap() Input.
// Run calls it from one goroutine. Any goroutine may call Stop and Accounts; Close is called last.
type Input interface {
	// Description describes the input to the outputs. Run asks for it before the first Read.
	Description() Description

	// Read waits for packets, puts the available ones into the slice, as many as fit, and returns
	// how many. They are valid until the next call. idle, if not nil, is called whenever all
	// available packets have been handed over, before Read waits for others, and about four times a
	// second while it waits. The error is io.EOF at the end, or says what ended the input early.
	Read(packets []Packet, idle func()) (int, error)

	// Accounts returns the current accounts of the sources; after Read has returned an error, the
	// final ones.
	Accounts() (Accounts, error)

	// Stop ends the input: Read then returns the packets that are still on their way, and then an
	// error.
	Stop()

	// Close ends the input and releases its resources. It may be called again.
	Close() error
}

// innermost returns the input or output that others wrap. One that hands over what another one
// does, changed, returns that one by Unwrap.
func innermost[T any](put T) T {
	for {
		w, ok := any(put).(interface{ Unwrap() T })
		if !ok {
			return put
		}
		put = w.Unwrap()
	}
}

// A regulated input watches how its outputs keep up, from when they have begun until end returns.
type regulated interface {
	regulate(outputs []Output) (end func())
}

// Run writes the input's packets to the outputs until ctx is done, Stop is called, the input ends
// by itself or an output fails. Run then stops the input, takes the packets that are still on their
// way, ends every output, closes the input and returns.
//
// It returns the accounts of the outputs, in their order. Packets that the input captured and an
// output did not take are lost in that output's accounts. The error is nil if the end was
// requested. Otherwise it joins what ended the input, the first error of an output, and errors from
// releasing everything.
func Run(ctx context.Context, from Input, outputs ...Output) ([]Accounts, error) {
	defer context.AfterFunc(ctx, from.Stop)()
	description := from.Description()
	unregulate := func() {}
	begun, failed := begin(description, outputs)
	packets := make([]Packet, groupSize)
	if failed == nil {
		if r, ok := innermost(from).(regulated); ok {
			unregulate = r.regulate(outputs)
		}
		failed = write(from, outputs, packets)
	}
	if errors.Is(failed, ErrEnough) {
		description.Options.notice(failed)
		failed = nil
	}
	from.Stop()
	unregulate()
	var ended error
	for ended == nil {
		_, ended = from.Read(packets, nil)
	}
	if ended == io.EOF {
		ended = nil
	}
	final, err := from.Accounts()
	ended = errors.Join(ended, err)
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
	return accounts, errors.Join(ended, failed, from.Close())
}

// begin begins the outputs, and returns how many it has tried, including one that failed.
func begin(d Description, outputs []Output) (tried int, err error) {
	for i, out := range outputs {
		if err := out.Begin(d); err != nil {
			return i + 1, err
		}
	}
	return len(outputs), nil
}

// write moves packets to the outputs until the input ends, and returns the error of an output.
// packets is memory for the packets that are moved at a time.
func write(from Input, outputs []Output, packets []Packet) (err error) {
	farewell := newFarewell(from, outputs)
	idle := func() {
		if err != nil {
			return
		}
		farewell.look()
		if err = flush(outputs); err != nil {
			from.Stop()
		}
	}
	direct, take := directly(from, outputs)
	for {
		if direct != nil {
			if err := direct.WriteDirect(take); err != nil {
				return err
			}
		}
		n, ended := from.Read(packets, idle)
		if err != nil {
			return err
		}
		if ended != nil {
			return flush(outputs)
		}
		for _, out := range outputs {
			if err := out.Write(packets[:n]); err != nil {
				return err
			}
		}
	}
}

func flush(outputs []Output) error {
	var errs []error
	for _, out := range outputs {
		errs = append(errs, out.Flush())
	}
	return errors.Join(errs...)
}

// A Forgetter is an [Output] that is told when the interface of a source has gone. It may wrap one,
// and return it by Unwrap() Output.
type Forgetter interface {
	// Forget returns whether the output has done with a source of which no more packets come, and
	// whose account is final: none of its packets is on its way, and all is said of it that the
	// output says. Run calls it again, between packets, until it returns true, and then asks the
	// next output. When all outputs of a session are Forgetters and have returned true, another
	// source may get the index. Its packets then count in the same element of Accounts, which is
	// the sum over all sources that have had the index.
	Forget(source int) bool
}

// maxAsked is how many sources the outputs are asked about again at a time: those that have waited
// longest, because outputs take packets in order.
const maxAsked = 256

// A farewell makes outputs forget the sources of a session whose interfaces have gone.
type farewell struct {
	roster    *roster // nil = no source goes
	forgotten func(source int)
	outputs   []Forgetter
	byAll     bool      // all outputs are Forgetters
	waits     []parting // in the order in which the sources went
}

// A parting is that of a source which some outputs have not forgotten yet.
type parting struct {
	source  int
	outputs []Forgetter
}

func newFarewell(from Input, outputs []Output) *farewell {
	f := &farewell{byAll: true}
	if s, ok := innermost(from).(*Session); ok {
		f.roster, f.forgotten = s.roster, s.options.Forgotten
	}
	for _, out := range outputs {
		if forgetter, ok := innermost(out).(Forgetter); ok {
			f.outputs = append(f.outputs, forgetter)
		} else {
			f.byAll = false
		}
	}
	return f
}

// look asks the outputs about the sources that have gone.
func (f *farewell) look() {
	if f.roster == nil {
		return
	}
	again, n := f.waits[:min(len(f.waits), maxAsked)], 0
	for _, p := range again {
		if !f.part(&p) {
			f.waits[n] = p
			n++
		}
	}
	f.waits = slices.Delete(f.waits, n, len(again))
	for _, source := range f.roster.departing() {
		if p := (parting{source, f.outputs}); !f.part(&p) {
			f.waits = append(f.waits, p)
		}
	}
}

// part returns whether all outputs have forgotten a source that has gone.
func (f *farewell) part(p *parting) bool {
	for len(p.outputs) > 0 && p.outputs[0].Forget(p.source) {
		p.outputs = p.outputs[1:]
	}
	if len(p.outputs) > 0 {
		return false
	}
	if f.byAll {
		if f.forgotten != nil {
			f.forgotten(p.source)
		}
		f.roster.forget(p.source)
	}
	return true
}

// Run writes the session's packets to the outputs, as [Run] does with any input: until ctx is done,
// Stop is called, Options.Count is reached, no hook sees packets any more, or an output fails.
func (s *Session) Run(ctx context.Context, outputs ...Output) ([]Accounts, error) {
	return Run(ctx, s, outputs...)
}

// Read implements [Input]. Packets that are on their way when the session is stopped are returned
// before io.EOF. It allocates nothing.
func (s *Session) Read(packets []Packet, idle func()) (int, error) {
	s.laps.Lap(laps.Writing)
	s.reader.idle = idle
	n, err := s.reader.read(packets)
	s.reader.idle = nil
	if err != nil {
		return 0, s.ended()
	}
	s.laps.Lap(laps.Reading)
	return n, nil
}

// regulate adapts the rate of an adaptive session to how its outputs keep up.
func (s *Session) regulate(outputs []Output) (end func()) {
	if s.regulator == nil {
		return func() {}
	}
	s.regulator.watch(outputs)
	return s.regulator.close
}

// Packets returns the session's packets, each valid until the next one, until ctx is done or
// something else happens that would end Run. An error comes last, without a packet. Breaking out of
// the loop leaves the session running. The caller must call Close in any case.
func (s *Session) Packets(ctx context.Context) iter.Seq2[*Packet, error] {
	return func(yield func(*Packet, error) bool) {
		defer context.AfterFunc(ctx, s.Stop)()
		packets := make([]Packet, groupSize)
		for {
			n, err := s.Read(packets, nil)
			if err != nil {
				if err != io.EOF {
					yield(nil, err)
				}
				return
			}
			for i := range packets[:n] {
				if !yield(&packets[i], nil) {
					return
				}
			}
		}
	}
}
