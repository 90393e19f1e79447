package capture

import "github.com/xdpcap/xdpcap/capture/internal/probe"

// writePlain encodes the oldest packets directly from the shared rings, as many as fit into the
// batch, and returns how many. It reads each packet once, on the way from the ring to the block;
// Reader.Take and Write by groups take three passes, and wait for memory in each. It stops at rare
// cases and leaves them to Reader.Take: a perf ring (Rings.Run returns false), a damaged record or
// a VLAN tag to put back (run.Next returns nil), a source that the encoder does not have yet, a
// full batch, or a full ledger. Its time counts as Reading, because the output only waits for it.
func writePlain(r *probe.Reader, e *Encoder, into *Batch) (n int) {
	r.Laps.Lap(probe.Writing) // the time since the last call of Lap
	ledger := r.Ledger
	blocks, ends := into.Blocks, into.Ends
	for before := -1; before < n; { // until a run has added no packet
		run, ok := r.Rings.Run()
		if !ok {
			break
		}
		before = n
		for rec := run.Next(); rec != nil; rec = run.Next() {
			data := rec.Data()
			slot := rec.Source // the kernel's number; source is the index in accounts and files
			source, ok := r.SourceOf(int(slot))
			isFull := cap(blocks)-len(blocks) < len(data)+MaxOverhead || len(ends) == cap(ends)
			if !ok || r.Added > e.sources.came || isFull || ledger.IsFull() {
				break
			}
			ledger.Take(source, len(data))
			r.Finish(&rec.Facts, slot, source)
			blocks = e.append(blocks, uint16(source), &rec.Facts, data)
			ends = append(ends, BlockEnd{
				End: into.Start + int64(len(blocks)), Time: rec.Time, Bytes: uint32(len(data)), Source: uint32(source),
			})
			run.Take(rec)
			n++
		}
		run.End()
	}
	into.Blocks, into.Ends = blocks, ends
	r.CountTaken(n)
	r.Laps.Lap(probe.Reading)
	return n
}

// A directInput can encode packets directly from its rings, as a Session does.
type directInput interface {
	writePlain(e *Encoder, into *Batch) int
}

// directPath returns the output that takes packets directly from an input, and the function that it
// calls for them. The output is nil if it or the input does not support that, or if there are
// several outputs.
func directPath(from Input, outputs []Output) (DirectOutput, func(*Encoder, *Batch) int) {
	in, ok := from.(directInput)
	if !ok || len(outputs) != 1 {
		return nil, nil
	}
	out, _ := outputs[0].(DirectOutput)
	return out, in.writePlain
}
