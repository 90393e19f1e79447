package capture

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/xdpcap/xdpcap/capture/internal/probe"
	"github.com/xdpcap/xdpcap/capture/internal/ring"
)

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
// requested. Otherwise it joins the cause of the input's end, the first error of an output, and
// errors from releasing resources.
func Run(ctx context.Context, from Input, outputs ...Output) ([]Accounts, error) {
	defer context.AfterFunc(ctx, from.Stop)()
	description := from.Description()
	unregulate := func() {}
	begun, failed := begin(description, outputs)
	packets := make([]Packet, ring.GroupSize)
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
	forgetting := newForgetting(from, outputs)
	idle := func() {
		if err != nil {
			return
		}
		forgetting.look()
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

// maxRetries is for how many sources Forget is called again at a time: those that have waited
// longest, because outputs take packets in order.
const maxRetries = 256

// A forgetting makes outputs forget the sources of a session whose interfaces have gone.
type forgetting struct {
	roster    *probe.Roster // nil = no source goes
	forgotten func(source int)
	outputs   []Forgetter
	byAll     bool            // all outputs are Forgetters
	waits     []pendingForget // in the order in which the sources went
}

// A pendingForget is that of a source which some outputs have not forgotten yet.
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

// look calls the outputs' Forget for the sources that have gone.
func (f *forgetting) look() {
	if f.roster == nil {
		return
	}
	again, n := f.waits[:min(len(f.waits), maxRetries)], 0
	for _, p := range again {
		if !f.part(&p) {
			f.waits[n] = p
			n++
		}
	}
	f.waits = slices.Delete(f.waits, n, len(again))
	for _, source := range f.roster.TakeDeparted() {
		if p := (pendingForget{source, f.outputs}); !f.part(&p) {
			f.waits = append(f.waits, p)
		}
	}
}

// part returns whether all outputs have forgotten a source that has gone.
func (f *forgetting) part(p *pendingForget) bool {
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
