package main

import (
	"bufio"
	"io"
	"time"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/dissect"
)

// A printer is an output that prints a line for each packet.
type printer struct {
	out       *bufio.Writer
	dissector *dissect.Dissector
	line      []byte // reused for every packet
}

// newPrinter collects lines for standard output until Flush is called or its buffer is full. See
// dissect.New for the verbosity.
func newPrinter(out io.Writer, verbosity int) *printer {
	return &printer{out: bufio.NewWriterSize(out, 64<<10), dissector: dissect.New(verbosity)}
}

func (p *printer) Begin(capture.Description) error { return nil }

func (p *printer) Write(packet *capture.Packet) error {
	p.line = p.dissector.AppendLine(p.line[:0], time.Unix(0, packet.Time), packet.Data, packet.WireLen)
	_, err := p.out.Write(p.line)
	return p.explain(err)
}

func (p *printer) Flush() error { return p.explain(p.out.Flush()) }

// End counts every packet as captured, also those whose lines could not be printed.
func (p *printer) End(final capture.Accounts) (capture.Accounts, error) { return final, p.Flush() }

func (p *printer) explain(err error) error {
	if err == nil {
		return nil
	}
	return stdout.explain(err)
}
