package lines

import (
	"io"
	"slices"
	"sync"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/outfile"
)

// A Printer is an output that prints a line for each packet.
type Printer struct {
	out    io.Writer
	name   string       // of out, for errors
	check  func() error // returns an error if the reader has gone away
	format Format
	text   *Text         // nil until Begin
	lines  []byte        // collected, and not printed yet
	queued []printedLine // the packets of these lines
	err    error

	mu    sync.Mutex
	taken capture.Accounts // Captured and Bytes of printed packets
}

// printedLine is the end of a packet's line, and the packet's share of the accounts.
type printedLine struct {
	end, bytes, source int
}

const printSize = 64 << 10 // the maximum size in bytes of collected lines

// NewPrinter collects lines for out until Flush is called or they reach printSize. name is out's
// name in errors. Flush also calls check.
func NewPrinter(out io.Writer, name string, check func() error, f Format) *Printer {
	return &Printer{out: out, name: name, check: check, format: f}
}

// Begin implements capture.Output.
func (p *Printer) Begin(d capture.Description) error {
	p.text = NewText(&d, p.format)
	return nil
}

// Write implements capture.Output. It prints the collected lines when they reach printSize.
func (p *Printer) Write(packets []capture.Packet) error {
	p.text.AddSources()
	for i := range packets {
		packet := &packets[i]
		p.lines = p.text.Append(p.lines, packet)
		p.queued = append(p.queued, printedLine{end: len(p.lines), bytes: len(packet.Data), source: int(packet.Source)})
		if len(p.lines) >= printSize {
			if err := p.print(); err != nil {
				return err
			}
		}
	}
	return nil
}

// Flush prints the lines. After an error, it prints no more lines, and every later call returns the
// error.
func (p *Printer) Flush() error {
	if err := p.print(); err != nil {
		return err
	}
	p.fail(p.check())
	return p.err
}

// fail records an error of the output.
func (p *Printer) fail(err error) {
	if err != nil {
		p.err = outfile.WriteError(p.name, err)
	}
}

// print writes the lines to the output, and counts the packets of lines that were written.
func (p *Printer) print() error {
	if p.err != nil || len(p.lines) == 0 {
		return p.err
	}
	n, err := p.out.Write(p.lines)
	p.fail(err)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, line := range p.queued {
		if line.end > n {
			break
		}
		taken := p.taken.At(line.source)
		taken.Captured++
		taken.Bytes += uint64(line.bytes)
	}
	p.lines, p.queued = p.lines[:0], p.queued[:0]
	return p.err
}

// Forget implements [capture.Forgetter].
func (p *Printer) Forget(int) bool { return len(p.queued) == 0 }

// End counts packets whose lines could not be printed as lost.
func (p *Printer) End(final capture.Accounts) (capture.Accounts, error) {
	err := p.print()
	return final.Delivered(p.taken), err
}

// Accounts returns the accounts so far; session reads those of the session. Packets whose lines
// were printed are Captured. It is safe for concurrent use.
func (p *Printer) Accounts(session func() (capture.Accounts, error)) (capture.Accounts, error) {
	p.mu.Lock()
	taken := slices.Clone(p.taken)
	p.mu.Unlock()
	own, err := session()
	if err != nil {
		return own, err
	}
	return own.SoFar(taken), nil
}
