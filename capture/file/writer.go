// Package file writes the packets of a capture into files: pcapng, pcap or JSON, compressed or not,
// into one file or a series of them that ends by size, time or number. A [File] is an Output of
// package capture that also names, checks and removes files; a [Writer] writes to any io.Writer. An
// [Input] reads capture files.
package file

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/xdpcap/xdpcap/capture"
)

// Options configure a File or Writer. The zero value of each field is its default.
type Options struct {
	Format      Format // PCAPNG
	Compression Compression
	Name        string // the file's name in errors; may be ""
	Application string // name and version of the program that writes, for the file's header
	CommandLine string // for the comment in the file's header

	// Comments, if not nil, returns comments for a source's statistics in pcapng files, each
	// shorter than 64 KiB. source is an index into Session.Sources. Any goroutine may call it until
	// End returns.
	Comments func(source int) []string

	// MoreJSON, if not nil, appends keys to the line of a packet in JSON, each as `,"key":value`.
	// It is called by the goroutine of Write, once for each packet.
	MoreJSON func(line []byte, p *capture.Packet) []byte

	// StatisticsInterval is about how often pcapng files get statistics of their packets so far; 0
	// = only at their end.
	StatisticsInterval time.Duration

	// Immediate makes each call of Write reach the file at once. Otherwise packets are buffered
	// until the buffer is full or Flush is called.
	Immediate bool

	// Microseconds makes pcap files have microseconds in place of nanoseconds.
	Microseconds bool

	// Refuse, if not nil, may return an error to reject an opened file before it is changed.
	Refuse func(os.FileInfo) error

	// Owners are the ids of users who may own an existing regular file or FIFO that Open opens; nil
	// = any user. NoLinks rejects a path with a symbolic link in it that is not root's, and a
	// regular file with several hard links. Both protect a process that writes to directories where
	// users with fewer rights can create files.
	Owners  []int
	NoLinks bool
}

// A Writer is an Output that writes a capture file. The underlying io.Writer gets whole blocks in
// each call. If it can Seek and Truncate, the file always ends with a whole block, and has the
// final accounts even when the disk is full: packets at the end are removed to make room, and count
// as lost. A Writer belongs to one goroutine; any goroutine may call Size.
//
// Begin starts a goroutine that writes to the file; End joins it. While the file stalls, packets
// wait in memory: up to 1 GiB, or a quarter of the available memory if that is less, and at most 16
// MiB if they are read from complete capture files. When this memory is full, Write waits for the
// file. It is freed about a second after it becomes unused, as long as Flush is called.
type Writer struct {
	producer
	stream  stream
	started time.Time // when the session began
}

// An encoder encodes the blocks of one format. formatKind.open makes it.
type encoder interface {
	header(b []byte) []byte
	// packets adds packets to a chunk while there is room, and returns how many. An error means
	// that the format cannot hold the next packet.
	packets(c *chunk, packets []capture.Packet) (int, error)
	trailer(b []byte, s *statistics) []byte
}

// A lateEncoder is an encoder that may append blocks after the last packet, to the last chunk, such
// as the descriptions of sources that have no packets.
type lateEncoder interface{ finish(c *chunk) }

// statistics are the accounts of a file's sources, which an encoder may write as blocks.
type statistics struct {
	capture.Accounts                                    // of the packets in this file
	start            time.Time                          // when counting began
	session          capture.Accounts                   // of the packets in all files of the session so far; nil = no comment
	since            time.Time                          // when counting for session began
	number           int                                // index of this file, from 0
	has              func(int) bool                     // whether the block of a source is written; nil = those of all
	interfaceOf      func(int) (number uint32, ok bool) // numbering.interfaceOf
}

// comment returns a function that makes the comment of a source's statistics in a file of a series:
// the number of the file, and the account of all files. It returns nil if there is a single file.
func (s *statistics) comment() func(source int) string {
	if s.session == nil {
		return nil
	}
	return func(source int) string {
		return fmt.Sprintf("file %d of a capture since %s; in all files so far: %s",
			s.number+1, s.since.UTC().Format(time.RFC3339), s.session[source].Equation())
	}
}

// NewWriter returns an Output that writes a capture file to out, and does not close it. Errors name
// the file by Options.Name.
func NewWriter(out io.Writer, o Options) *Writer {
	return &Writer{producer: producer{options: o}, stream: stream{out: out, name: o.Name, frames: newFrames(o.Compression)}}
}

// Begin encodes the file's header, which reaches the file after the first Flush.
func (w *Writer) Begin(d capture.Description) error {
	w.started = d.Started
	w.stream.begin(w.prepare(&d), 0, len(d.Sources), firstInterfaces(&d))
	w.stream.reportEvery(w.options.StatisticsInterval, func() []byte {
		return w.trailer(w.stream.described(accountsSoFar(&d, nil, w.stream.taken)))
	})
	return w.beginQueue(&w.stream, w.options.Name, &d)
}

// Size is how many bytes were written to the file.
func (w *Writer) Size() int64 { return w.stream.size.Load() }

// End waits until all added packets are written, and adds the final accounts, even after an error
// if that is still possible. It returns the accounts of the file, and the first error.
func (w *Writer) End(final capture.Accounts) (capture.Accounts, error) {
	if w.queue == nil { // Begin was not called, or failed
		return final.Delivered(make(capture.Accounts, len(final))), nil
	}
	err := w.endQueue()
	last := w.stream.forceEnd(func() []byte {
		return w.trailer(w.stream.described(final.Delivered(w.stream.taken)))
	})
	if err == nil {
		err = last
	}
	return final.Delivered(w.stream.taken), err
}

func (w *Writer) trailer(own capture.Accounts) []byte {
	return w.enc.trailer(nil, &statistics{Accounts: own, start: w.started, interfaceOf: w.stream.interfaceOf})
}
