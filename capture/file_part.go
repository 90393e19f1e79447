package capture

import (
	"errors"

	"github.com/xdpcap/xdpcap/internal/jsonline"
	"github.com/xdpcap/xdpcap/internal/outfile"
)

// A part is one file of a File. It belongs to the goroutine that writes until it is complete, and
// then to the finisher.
type part struct {
	file     *outfile.File
	stream   stream
	path     string // when it is finished
	packets  uint64 // that were given to the stream
	last     bool   // of the session: it must be where it was until it is on the disk
	err      error  // of the file, found by check
	refused  bool   // finish found that its packets may be missing
	complete bool   // it waits to be finished; the keeper's
}

// newPart returns a file that errors call by a name.
func (f *File) newPart(path, name string, file *outfile.File) *part {
	p := &part{file: file, path: path}
	s := &p.stream
	s.out, s.name, s.frames, s.check = file, name, f.writer.stream.frames, p.check
	if f.writer.options.Format == JSON && s.frames == nil && !file.IsRegular() {
		s.out = jsonline.PipeWriter{Out: file}
	}
	return p
}

// openPart opens the file that will have this path. One that is there already is written over where
// it is the ring's own, or Rotation.NoOverwrite does not forbid it.
func (f *File) openPart(path string, own bool) (*part, error) {
	name := f.writer.options.Name
	if name == "" || !f.rotation.isSingle() {
		name = path
	}
	r := &f.rotation
	opened, err := outfile.Open(path, outfile.Options{Atomic: r.Atomic, New: r.NoOverwrite && !own, Regular: !r.isSingle(), Trust: f.writer.options.trust()})
	if err != nil {
		return nil, err
	}
	if err := f.writer.options.refuses(opened); err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	return f.newPart(path, name, opened), nil
}

// refuses asks whether a file that was opened is to stay as it is.
func (o *WriterOptions) refuses(file *outfile.File) error {
	if o.Refuse == nil {
		return nil
	}
	info, err := file.Stat()
	if err != nil {
		return err
	}
	return o.Refuse(info)
}

// check looks what has become of the file, until that is an error. Nothing more is written where it
// could not be read.
func (p *part) check() error {
	if p.err == nil {
		p.err = p.file.Check(p.stream.size.Load())
	}
	if p.isSpoiled() {
		p.stream.err = p.err
	}
	return p.err
}

// isSpoiled tells whether nobody can read the file.
func (p *part) isSpoiled() bool { return errors.Is(p.err, outfile.ErrSpoiled) }

// write adds packets.
func (p *part) write(blocks []byte, packets []placed) error {
	for i := range packets {
		if packets[i].isPacket() {
			p.packets++
		}
	}
	return p.stream.write(blocks, packets)
}

// bytes is how long the file is up to a block at this place in the queue. With compression, it is
// what was written.
func (p *part) bytes(place int64) int64 {
	if p.stream.frames != nil {
		return p.stream.size.Load()
	}
	return place - p.stream.start
}

// finish brings a complete file to its disk, and then under its name. A file with an error has
// neither its name, where Atomic gives it one, nor its packets in the account, unless it was
// renamed by others and is whole. Where there was no room even for the header, no file stays.
func (p *part) finish() error {
	if p.stream.err != nil && p.stream.size.Load() == 0 {
		p.refused = true
		p.file.Abandon()
		p.file.Close()
		return p.stream.err
	}
	err := p.file.Store()
	if err == nil && p.last {
		p.check()
	}
	if err == nil && p.err == nil {
		err = p.file.Publish()
	}
	if closed := p.file.Close(); err == nil {
		err = closed
	}
	p.refused = err != nil || p.isSpoiled()
	if err == nil {
		err = p.err
	}
	return err
}
