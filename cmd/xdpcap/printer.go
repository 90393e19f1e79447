package main

import (
	"io"
	"slices"
	"time"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/dissect"
)

// A printer is an output that prints a line for each packet.
type printer struct {
	out       io.Writer
	dissector *dissect.Dissector
	lines     []byte           // collected, and not printed yet
	queued    []printedLine    // the packets of these lines
	taken     capture.Accounts // Captured and Bytes: what was printed
	err       error
}

// printedLine is where a packet's line ends, and what the packet adds to the accounts.
type printedLine struct {
	end, bytes, source int
}

const printSize = 64 << 10 // bytes of lines that are collected at most

// newPrinter collects lines for standard output until Flush is called or there are many. See
// dissect.New for the verbosity.
func newPrinter(out io.Writer, verbosity int) *printer {
	return &printer{out: out, dissector: dissect.New(verbosity)}
}

func (p *printer) Begin(d capture.Description) error {
	p.taken = make(capture.Accounts, len(d.Sources))
	return nil
}

func (p *printer) Write(packet *capture.Packet) error {
	p.lines = p.dissector.AppendLine(p.lines, time.Unix(0, packet.Time), packet.Data, packet.WireLen)
	p.queued = append(p.queued, printedLine{end: len(p.lines), bytes: len(packet.Data), source: packet.Source})
	if len(p.lines) >= printSize {
		return p.Flush()
	}
	return nil
}

// Flush prints the lines. After an error, which every later call returns, nothing is printed.
func (p *printer) Flush() error {
	if p.err != nil || len(p.lines) == 0 {
		return p.err
	}
	n, err := p.out.Write(p.lines)
	if err != nil {
		p.err = stdout.explain(err)
	}
	for _, line := range p.queued {
		if line.end > n {
			break
		}
		p.taken[line.source].Captured++
		p.taken[line.source].Bytes += uint64(line.bytes)
	}
	p.lines, p.queued = p.lines[:0], p.queued[:0]
	return p.err
}

// End counts packets whose lines could not be printed as lost.
func (p *printer) End(final capture.Accounts) (capture.Accounts, error) {
	err := p.Flush()
	own := slices.Clone(final)
	for i, taken := range p.taken {
		own[i].Lost += own[i].Captured - taken.Captured
		own[i].Captured, own[i].Bytes = taken.Captured, taken.Bytes
	}
	return own, err
}
