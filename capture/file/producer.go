package file

import (
	"cmp"
	"fmt"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/machine"
)

// A producer encodes packets into a queue, from which another goroutine writes them. It is the part
// that [Writer] and [File] have in common.
type producer struct {
	options Options
	enc     encoder
	queue   *queue // nil before beginQueue
	name    string // the file's name in errors; "" = unknown
	notice  func(error)
	direct  capture.Batch // reused by WriteDirect
}

// prepare makes the encoder for the packets of an input, and returns the file's header.
func (p *producer) prepare(d *capture.Description) (header []byte) {
	p.notice = d.Notice
	p.enc = p.options.Format.kind().open(d, &p.options)
	return p.enc.header(nil)
}

// beginQueue starts the queue whose blocks go to out. It gives a notice if a limit below the
// machine's memory, such as a cgroup's, reduces how many bytes may wait for the file of this name.
// If the encoder copies the input's blocks, it registers addBlock for those that are not packets.
func (p *producer) beginQueue(out blockWriter, name string, d *capture.Description) (err error) {
	p.name = name
	wanted := maxQueue
	if d.Stopped != nil { // only an input of complete capture files has it, and these can wait
		wanted = fileQueue
	}
	available := machine.AvailableMemory()
	if p.queue, err = newQueue(out, wanted, func() uint64 { return machine.AvailableMemory().Bytes }); err != nil {
		return err
	}
	if most := p.queue.limitBytes(); most < wanted && !available.IsOfMachine() {
		d.Notice(fmt.Errorf("at most %d MiB of packets may wait for %s, a quarter of the available memory, which is %v",
			most>>20, cmp.Or(name, "the output"), available))
	}
	if e, ok := p.enc.(*copyEncoder); ok {
		e.OnBlocks(func(b Block) { p.addBlock(e, b) })
	}
	return nil
}

// addBlock adds a block of a capture file that is not a packet, to the open chunk of the queue or,
// if that has no room, to the next one. If that fails, the next Write returns the error.
func (p *producer) addBlock(e *copyEncoder, b Block) {
	for p.queue.failure() == nil && !e.block(p.queue.openChunk, b) {
		if p.queue.next() != nil {
			return
		}
	}
}

// endQueue waits until all added packets are written, and gives notices of blocks that the encoder
// has omitted. It returns the file's error.
func (p *producer) endQueue() error {
	// Such as descriptions of sources without packets. They need no check for room: append moves
	// the blocks of a full chunk to larger memory.
	if e, ok := p.enc.(lateEncoder); ok && p.queue.failure() == nil {
		e.finish(p.queue.openChunk)
	}
	err := p.queue.end()
	if e, ok := p.enc.(*copyEncoder); ok {
		for _, notice := range e.Omitted() {
			p.notice(notice)
		}
	}
	return err
}

// Write adds packets. It keeps no references to them and allocates no memory. Once writing to the
// file has failed, every call returns that error.
func (p *producer) Write(packets []capture.Packet) error {
	if err := p.queue.failure(); err != nil {
		return err
	}
	for {
		n, err := p.enc.packets(p.queue.openChunk, packets)
		if err != nil {
			return fmt.Errorf("write packets to %s: %w", cmp.Or(p.name, "the file"), err)
		}
		if packets = packets[n:]; len(packets) == 0 {
			break
		}
		if err := p.queue.next(); err != nil {
			return err
		}
	}
	if p.options.Immediate {
		return p.queue.flush()
	}
	return nil
}

// Flush starts to write the added packets, and the descriptions of sources that were added since
// the last Write. It does not wait. About twice a second it also makes the goroutine that writes
// check the file. It returns an error if writing to the file has failed.
func (p *producer) Flush() error {
	if err := p.queue.failure(); err != nil {
		return err
	}
	if e, ok := p.enc.(pcapngEncoder); ok {
		e.describeAdded(p.queue.openChunk)
	}
	p.queue.tendIfDue()
	return p.queue.flush()
}

// Backlog returns how many bytes were added so far, how many of them were written, and how many may
// wait. Any goroutine may call it between Begin and End.
func (p *producer) Backlog() (added, written, limit int64) { return p.queue.backlog() }

// WriteDirect implements [capture.DirectOutput]. It lets take encode packets directly from the
// rings into the open chunk, as many as fit, unless the format is not pcapng. The caller reads and
// writes the packets that stay in the rings as usual.
func (p *producer) WriteDirect(take func(*capture.Encoder, *capture.Batch) int) error {
	e, ok := p.enc.(pcapngEncoder)
	if !ok {
		return nil
	}
	if err := p.queue.failure(); err != nil {
		return err
	}
	c := p.queue.openChunk
	p.direct = capture.Batch{Blocks: c.blocks, Ends: c.ends, Start: c.start}
	n := take(e.Encoder, &p.direct)
	c.blocks, c.ends = p.direct.Blocks, p.direct.Ends
	if n > 0 && p.options.Immediate {
		return p.queue.flush()
	}
	return nil
}
