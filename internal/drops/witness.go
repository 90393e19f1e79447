package drops

import (
	"errors"
	"maps"

	"github.com/xdpcap/xdpcap/internal/lost"
)

// A witness compares the losses with the kernel's own counters of the network namespace in which it
// was opened.
type witness struct {
	files []lost.CounterFile
	stack *stackMeter // counts at all interfaces; nil = Meter.stack does

	before, after lost.Counters // shortly before and after the Meter began to count
}

// openWitness reads the counters before the Meter begins to count.
func openWitness() (w *witness, err error) {
	w = new(witness)
	for _, name := range lost.CounterFiles {
		w.files = append(w.files, lost.OpenCounters(name))
	}
	if w.before, err = w.read(); err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

// begin reads the counters again when the Meter counts all losses. If the Meter counts only some of
// the machine's, begin first opens a further stackMeter for all.
func (w *witness) begin(m *Meter) (err error) {
	if len(m.stack.reasons) == 0 {
		return errors.New("this kernel gives no reasons for losses, so they cannot be compared with its counters: it takes Linux 5.17")
	}
	if m.iface != nil || m.inNamespace {
		if w.stack, err = openStack(nil, Options{symbols: m.stack.symbols}); err != nil {
			return err
		}
	}
	w.after, err = w.read()
	return err
}

func (w *witness) read() (lost.Counters, error) {
	all := make(lost.Counters)
	for _, f := range w.files {
		f.Read(all)
	}
	return all, all.AddDevices()
}

// compare compares the counters with the losses of a reading. before has the counters before the
// reading.
func (w *witness) compare(m *Meter, r *reading, before lost.Counters) (*Remainder, error) {
	causes := r.causes
	if w.stack != nil {
		all, err := w.stack.Read()
		if err != nil {
			return nil, err
		}
		causes = all.Causes
	}
	now, err := w.read()
	if err != nil {
		return nil, err
	}
	losses := make(map[knownLoss]uint64)
	add := func(all map[Loss]Tally, isSure bool) {
		for l, tally := range all {
			losses[knownLoss{l, isSure}] += tally.Packets
		}
	}
	for _, netns := range []uint32{m.netns, 0} { // 0 = unknown
		own := stackCounts{Causes: maps.Clone(causes)}
		maps.DeleteFunc(own.Causes, func(c Cause, _ Tally) bool { return c.Namespace != netns })
		inNamespace := newReading(own)
		inNamespace.addStack(&Meter{netns: m.netns}, own)
		add(inNamespace.Losses, netns != 0)
		add(inNamespace.Harmless, false)
		add(inNamespace.Duplicates, false)
	}
	for l, packets := range r.listeners {
		losses[knownLoss{l, true}] += packets
	}
	outsideStack := maps.Clone(r.Losses)
	maps.DeleteFunc(outsideStack, func(l Loss, _ Tally) bool {
		return l.Stage != Card && l.Stage != XDP && l.Reason != "tx_errors" && l.Reason != badTx
	})
	add(outsideStack, false)
	remainder := compare(before.Since(w.after), now.Since(w.before), losses)
	return &remainder, nil
}

func (w *witness) close() error {
	var errs []error
	for _, f := range w.files {
		errs = append(errs, f.Close())
	}
	if w.stack != nil {
		errs = append(errs, w.stack.Close())
	}
	return errors.Join(errs...)
}
