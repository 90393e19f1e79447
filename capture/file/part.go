package file

import (
	"errors"
	"fmt"
	"time"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/lines"
	"github.com/xdpcap/xdpcap/internal/outfile"
)

// A part is one file of a File. It belongs to the goroutine that writes until it is complete, and
// then to the finisher.
type part struct {
	file       *outfile.File
	stream     stream
	path       string // its final path
	began      time.Time
	packets    uint64 // in the file, or on their way to it
	last       bool   // the session's last file: it is checked again when it is on disk
	err        error  // the first problem that check found
	unstored   bool   // finish found that packets may be missing in the file on disk
	isComplete bool   // all blocks are written, but it is not finished; guarded by the keeper's mu
}

// newPart returns a part. Errors name the file by name.
func (f *File) newPart(path, name string, file *outfile.File) *part {
	p := &part{file: file, path: path}
	s := &p.stream
	s.out, s.name, s.frames, s.check = file, name, f.frames, p.check
	if f.options.Format.IsText() && s.frames == nil && !file.IsRegular() {
		s.out = lines.PipeWriter{Out: file}
	}
	return p
}

// openPart opens the file that will have this path. Rotation.NoOverwrite forbids to overwrite an
// existing file, except one of the ring.
func (f *File) openPart(path string, isOfRing bool) (*part, error) {
	name := f.options.Name
	if name == "" || !f.rotation.isSingle() {
		name = path
	}
	r := &f.rotation
	opened, err := outfile.Open(path, outfile.Options{Atomic: r.Atomic, New: r.NoOverwrite && !isOfRing, Regular: !r.isSingle(), Trust: f.options.trust()})
	if err != nil {
		return nil, err
	}
	if err := f.options.refuses(opened); err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	return f.newPart(path, name, opened), nil
}

// openAt opens the file at a place. If skipOthers is set, it skips names of other users' files,
// which the capture must not remove: otherwise another user could end the capture by such a file.
// release prepares a path for overwriting, as Keeper.release does, and reports whether a file of
// the ring has this path; NoOverwrite does not protect such files.
func (f *File) openAt(place Place, skipOthers bool, release func(path string) (isOfRing bool)) (*part, error) {
	r := &f.rotation
	first := r.Path(place)
	for path, tries := first, 1; ; tries++ {
		p, err := f.openPart(path, release(path))
		if err == nil {
			f.place = place
			return p, nil
		}
		place.InPeriod, place.Passed = place.InPeriod+1, place.Passed+1
		next := r.Path(place)
		if !skipOthers || !f.options.hasOthers(r, path) || next == path || next == first || tries == triedNames {
			return nil, err
		}
		f.passOver(path)
		path = next
	}
}

// passOver gives a notice, once, that names are passed over. Before Begin, the notice is delayed
// until then.
func (f *File) passOver(path string) {
	if f.passed != nil {
		return
	}
	f.passed = fmt.Errorf("%s is another user's file: the series passes over the names that others have taken", path)
	if f.notice != nil {
		f.notice(f.passed)
	}
}

// refuses returns the error with which Options.Refuse rejects an opened file, or nil.
func (o *Options) refuses(file *outfile.File) error {
	if o.Refuse == nil {
		return nil
	}
	info, err := file.Stat()
	if err != nil {
		return err
	}
	return o.Refuse(info)
}

// check checks the file, and returns the first problem that any check has found. After an
// outfile.ErrSpoiled, the stream writes no more blocks.
func (p *part) check() error {
	if p.err == nil {
		p.err = p.file.Check(p.stream.size.Load())
	}
	if p.isSpoiled() {
		p.stream.err = p.err
	}
	return p.err
}

// isSpoiled reports whether the file can no longer be read.
func (p *part) isSpoiled() bool { return errors.Is(p.err, outfile.ErrSpoiled) }

func (p *part) write(blocks []byte, ends []capture.BlockEnd) error {
	for i := range ends {
		if isPacket(&ends[i]) {
			p.packets++
		}
	}
	return p.stream.write(blocks, ends)
}

// bytes returns the length of the file up to a block that ends at this position in the queue. With
// compression the length is not known before, so it returns the bytes written so far.
func (p *part) bytes(position int64) int64 {
	if p.stream.frames != nil {
		return p.stream.size.Load()
	}
	return position - p.stream.start
}

// finish syncs a complete file to disk and then, with Atomic, renames it to its final name. If that
// fails, the file keeps its partial name and its packets do not count as captured. A whole file
// that another program has renamed keeps its packets in the account. If there was no room even for
// the header, the file is removed: Close removes an abandoned one.
func (p *part) finish() error {
	if p.stream.err != nil && p.stream.size.Load() == 0 {
		p.unstored = true
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
	p.unstored = err != nil || p.isSpoiled()
	if err == nil {
		err = p.err
	}
	return err
}
