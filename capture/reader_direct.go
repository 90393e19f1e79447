package capture

// writePlain encodes the oldest packets directly from the shared rings, as many as fit into the
// chunk, and returns how many. It reads each packet once, on the way from the ring to the block;
// the usual way by groups takes three passes and waits for memory in each. It stops at rare cases
// and leaves them to reader.take: a ring of another kind, a damaged record, a VLAN tag to put back,
// a full chunk, or a full ledger.
func (r *reader) writePlain(e *Encoder, c *chunk) (n int) {
	m, ledger := &r.merge, r.ledger
	blocks, ends := c.blocks, c.packets
	for isRare := false; !isRare && m.isReady(); {
		first, until := m.order[0], m.horizon
		ring, ok := first.ring.(*sharedRing)
		if !ok {
			break
		}
		isAlone := len(m.order) == 1
		if !isAlone {
			until = min(until, m.order.second())
		}
		end, head := ring.end, ring.head
		for end != head {
			f := ring.facts(end)
			size := (uint64(factsSize) + uint64(f.length) + 7) &^ 7
			first.stamp = f.stamp()
			if !f.isSent() || size > head-end || f.tagProtocol != 0 || int(f.Source) >= len(e.sources) {
				isRare = true
				break
			}
			if first.stamp > until {
				break
			}
			data := f.data()
			if cap(blocks)-len(blocks) < len(data)+MaxOverhead || len(ends) == cap(ends) || ledger.isFull() {
				isRare = true
				break
			}
			ledger.take(int(f.Source), len(data))
			r.finish(f)
			blocks = e.append(blocks, f, data)
			ends = append(ends, f.blockEnd(c.start+int64(len(blocks)), len(data)))
			end += size
			n++
		}
		ring.end = end
		if ring.end-ring.tail > ring.share() {
			ring.release()
		}
		if first.ready = end != head; !first.ready {
			m.order.popFirst()
		} else if !isAlone {
			m.order.fixFirst()
		}
	}
	c.blocks, c.packets = blocks, ends
	r.took(n)
	return n
}

// A direct is an Output that can take packets directly from the rings.
type direct interface{ directWriter() *Writer }

// directly returns the session and the Writer that takes packets directly from its rings. The
// Writer must be the only output and write pcapng; otherwise both are nil or only the Writer is.
func directly(from Input, outputs []Output) (*Session, *Writer) {
	if s, ok := from.(*Session); ok {
		return s, directTo(outputs)
	}
	return nil, nil
}

func directTo(outputs []Output) *Writer {
	if len(outputs) != 1 {
		return nil
	}
	if out, ok := outputs[0].(direct); ok {
		return out.directWriter()
	}
	return nil
}

// directWriter returns the writer itself, if it writes pcapng. Call it only after Begin.
func (w *Writer) directWriter() *Writer {
	if _, ok := w.enc.(pcapngEncoder); ok {
		return w
	}
	return nil
}

func (f *File) directWriter() *Writer { return f.writer.directWriter() }

// take takes packets directly from the rings, as many as fit into the open chunk, and returns how
// many. The caller leaves the rest to Session.Read.
func (w *Writer) take(r *reader) (n int, err error) {
	if err := w.queue.failure(); err != nil {
		return 0, err
	}
	n = r.writePlain(w.enc.(pcapngEncoder).Encoder, w.queue.open)
	if n > 0 && w.options.Immediate {
		return n, w.queue.hand()
	}
	return n, nil
}
