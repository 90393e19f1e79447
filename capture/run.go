package capture

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/xdpcap/xdpcap/capture/internal/probe"
	"github.com/xdpcap/xdpcap/capture/internal/ring"
)

// A regulated input adapts to how its outputs keep up, after they have begun and until end returns.
type regulated interface {
	regulate(outputs []Output) (end func())
}

// Run writes the input's packets to the outputs until ctx is done, Stop is called, the input ends
// or an output fails. Run then stops the input, reads the remaining packets, ends every output,
// closes the input and returns.
//
// It returns the accounts of the outputs, in their order. Packets that the input captured and an
// output did not take are lost in that output's accounts. The error is nil if the end was
// requested. Otherwise it joins the cause of the input's end, the first error of an output, and
// errors from releasing resources.
func Run(ctx context.Context, from Input, outputs ...Output) ([]Accounts, error) {
	defer context.AfterFunc(ctx, from.Stop)()
	description := from.Description()
	endRegulation := func() {}
	begun, failed := begin(description, outputs)
	packets := make([]Packet, ring.GroupSize)
	if failed == nil {
		if r, ok := innermost(from).(regulated); ok {
			endRegulation = r.regulate(outputs)
		}
		failed = write(from, outputs, packets)
	}
	if errors.Is(failed, ErrEnough) {
		description.Options.notice(failed)
		failed = nil
	}
	from.Stop()
	endRegulation()
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
	sources := newForgetting(from, outputs)
	idle := func() {
		if err != nil {
			return
		}
		sources.update()
		if err = flush(outputs); err != nil {
			from.Stop()
		}
	}
	direct, take := directPath(from, outputs)
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

// flush flushes all outputs, even after an error.
func flush(outputs []Output) error {
	var errs []error
	for _, out := range outputs {
		errs = append(errs, out.Flush())
	}
	return errors.Join(errs...)
}

// A Forgetter is an [Output] that is notified when the interface of a source has gone. It may wrap
// one, and return it by Unwrap() Output.
type Forgetter interface {
	// Forget returns whether the output no longer needs a source that has gone and whose account is
	// final: all its packets are written, and all data about it. Run calls it again, between
	// packets, until it returns true, and then calls the next output's. When all outputs of a
	// session are Forgetters and have returned true, another source may get the index. Its packets
	// then count in the same element of Accounts, which is the sum over all sources that have had
	// the index.
	Forget(source int) bool
}

// maxRetries bounds the sources for which Forget is called again at a time. The longest-waiting
// sources come first, because outputs write packets in order.
const maxRetries = 256

// A forgetting makes outputs forget the sources of a session whose interfaces have gone.
type forgetting struct {
	roster    *probe.Roster // nil = no source goes
	forgotten func(source int)
	outputs   []Forgetter
	byAll     bool            // all outputs are Forgetters
	pending   []pendingForget // in the order in which the sources went
}

// A pendingForget is a source that has gone, with the outputs that have not forgotten it yet.
type pendingForget struct {
	source  int
	outputs []Forgetter
}

func newForgetting(from Input, outputs []Output) *forgetting {
	f := &forgetting{byAll: true}
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

// update calls the outputs' Forget for the sources that have gone.
func (f *forgetting) update() {
	if f.roster == nil {
		return
	}
	again, n := f.pending[:min(len(f.pending), maxRetries)], 0
	for _, p := range again {
		if !f.forget(&p) {
			f.pending[n] = p
			n++
		}
	}
	f.pending = slices.Delete(f.pending, n, len(again))
	for _, source := range f.roster.TakeDeparted() {
		if p := (pendingForget{source, f.outputs}); !f.forget(&p) {
			f.pending = append(f.pending, p)
		}
	}
}

// forget calls the outputs' Forget for a source, and returns whether all outputs have forgotten it.
func (f *forgetting) forget(p *pendingForget) bool {
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
		f.roster.Forget(p.source)
	}
	return true
}
