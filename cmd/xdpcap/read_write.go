package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/capfile"
	"github.com/xdpcap/xdpcap/internal/compress"
	"github.com/xdpcap/xdpcap/internal/outfile"
)

// A readWriter writes what is read to a file.
type readWriter struct {
	file  *outfile.File
	name  string
	buf   []byte // whole blocks
	size  int64  // bytes in the file, all of them whole blocks, or frames of these
	err   error  // the first one
	begun bool
	enc   readEncoder

	packer compress.Packer // nil = the file is not compressed
	packed []byte          // kept, so that none is allocated for each frame
}

// A readEncoder appends what a file format has of a block.
type readEncoder interface {
	header(b []byte) []byte
	block(b []byte, from *capfile.Block) ([]byte, error)
	end(b []byte) []byte
	notices() []string
}

const writeSize = compress.FrameSize // bytes that are written at a time

// newReadWriter opens the file that -w names. Nothing is written to it before there is something
// to write, which takes what begin finds out about the inputs.
func newReadWriter(o *readOptions, in *readInputs) (*readWriter, error) {
	w := &readWriter{name: o.write}
	var err error
	if isStdout(o.write) {
		w.name = stdoutName
		if err := checkTakesFile(o.write); err != nil {
			return nil, err
		}
		w.file, err = outfile.Opened(os.Stdout, stdoutName)
	} else {
		err = o.sandbox.opener().Open(o.write, func(trust outfile.Trust) (err error) {
			return awaitReader(signalled, func() error {
				w.file, err = outfile.Open(o.write, outfile.Options{Trust: trust})
				return err
			})
		})
	}
	if err != nil {
		return nil, fmt.Errorf("-w: %w", err)
	}
	if in.has(w.file.File) {
		err := fmt.Errorf("-w %s: it is one of the files that are read: choose another one", o.write)
		return nil, errors.Join(err, w.file.Close())
	}
	switch o.compression {
	case capture.Gzip:
		w.packer = compress.Gzip()
	case capture.Zstd:
		w.packer = compress.Zstd()
	}
	return w, nil
}

func newReadEncoder(format capture.Format, files []*capfile.File) readEncoder {
	switch {
	case format == capture.PCAP:
		return &pcapCopy{}
	case format == capture.JSON:
		return newJSONCopy()
	case len(files) == 1 && files[0].Format == capfile.PCAPNG:
		return &pcapngCopy{}
	}
	return &pcapngMerge{files: files}
}

func (w *readWriter) take(b *capfile.Block) (err error) {
	if !w.begun {
		if err := w.begin(); err != nil {
			return err
		}
	}
	if w.err != nil {
		return w.err // of a flush
	}
	if w.buf, err = w.enc.block(w.buf, b); err != nil {
		return fmt.Errorf("-w %s: %w", w.name, err)
	}
	if len(w.buf) >= writeSize {
		return w.flush()
	}
	return nil
}

func (w *readWriter) begin() error {
	w.begun = true
	if w.packer != nil {
		w.packer.Begin()
	}
	w.buf = w.enc.header(w.buf)
	w.fail(w.file.Begin())
	return w.err
}

func (w *readWriter) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

// flush writes whole blocks. Where they find no room, the file keeps the whole ones before them.
func (w *readWriter) flush() error {
	if w.err != nil || len(w.buf) == 0 {
		return w.err
	}
	if w.packer == nil {
		return w.write(w.buf)
	}
	w.packed = w.packer.Pack(w.packed[:0], w.buf)
	return w.write(w.packed)
}

// write writes what the blocks have become, and begins with the next ones.
func (w *readWriter) write(b []byte) error {
	if _, err := w.file.Write(b); err != nil {
		w.file.Truncate(w.size) // of a pipe this fails, and its reader has seen what it has seen
		w.fail(outfile.WriteError(w.name, err))
		return w.err
	}
	w.size += int64(len(b))
	written.printed.Add(int64(len(b)))
	w.buf = w.buf[:0]
	return nil
}

// flushLast writes the last blocks, and what ends a compressed file.
func (w *readWriter) flushLast() error {
	if w.flush() != nil || w.packer == nil {
		return w.err
	}
	return w.write(w.packer.End(w.packed[:0], nil))
}

func (w *readWriter) end() error {
	if !w.begun && w.err == nil {
		w.begin()
	}
	w.buf = w.enc.end(w.buf)
	if w.flushLast() == nil {
		w.fail(w.file.Finish(w.size))
	}
	w.fail(w.file.Close())
	return lasting(w.err)
}

func (w *readWriter) abort() { w.end() }

// lasting lets the error of a closed pipe be said: what goes through it is a file, which is not
// whole then.
func lasting(err error) error {
	if errors.Is(err, errNobodyReads) {
		return errors.New(err.Error())
	}
	return err
}

func (w *readWriter) notices() []string { return w.enc.notices() }
