package main

import (
	"bufio"
	"io"
	"time"

	"github.com/xdpcap/xdpcap/internal/dissect"
)

// A printer writes a line for each packet. It belongs to one goroutine.
type printer struct {
	out       *bufio.Writer
	dissector *dissect.Dissector
	line      []byte // reused for every packet
}

// newPrinter collects lines for out until flush is called or its buffer is full. See dissect.New
// for the verbosity.
func newPrinter(out io.Writer, verbosity int) *printer {
	return &printer{out: bufio.NewWriterSize(out, 64<<10), dissector: dissect.New(verbosity)}
}

// print adds the line of a packet of which data was kept out of wireLen bytes. Errors are those of
// writing.
func (p *printer) print(at time.Time, data []byte, wireLen int) error {
	p.line = p.dissector.AppendLine(p.line[:0], at, data, wireLen)
	_, err := p.out.Write(p.line)
	return err
}

// flush writes what was collected.
func (p *printer) flush() error { return p.out.Flush() }
