package file

import (
	"math"

	"github.com/xdpcap/xdpcap/internal/amount"
)

// Bytes reserved for the closing statistics of each source that does not have them yet. commentRoom
// is added if they have comments, and is enough unless these are very long.
const (
	trailerRoom = 1 << 10
	commentRoom = 16 << 10
)

// A file takes whole blocks of the disk, mostly of 4 KiB, even if its last block is almost empty.
// blockRoom is reserved for the last blocks of the current file and of the next one.
const blockRoom = 8 << 10

// grant returns how many of these bytes may be written to the current file, and an error that says
// why not all.
func (f *File) grant(bytes int64) (int64, error) {
	r, reserve := &f.rotation, f.reserve()
	for {
		room, err := int64(math.MaxInt64), error(nil)
		if r.MaxBytes > 0 {
			room = r.MaxBytes - f.keeper.bytes()
			err = errEnough("all files together have reached their limit of %s", amount.Bytes(r.MaxBytes))
		}
		if r.MinFree > 0 {
			free, failed := f.present.file.Free()
			if failed != nil {
				return 0, failed
			}
			if free-r.MinFree < room {
				room = free - r.MinFree
				err = errEnough("%w", tooFull(f.present.path, free, r.MinFree))
			}
		}
		if room -= reserve; room >= bytes {
			return bytes, nil
		}
		if r.Keep == 0 || !f.keeper.removeOldest() {
			return max(room, 0), err
		}
	}
}

// reserve returns how many bytes are kept free for the closing statistics of the current file.
func (f *File) reserve() int64 {
	each := int64(trailerRoom)
	if f.writer.options.Comments != nil {
		each += commentRoom
	}
	return each * int64(max(f.sources, len(f.present.stream.taken))-len(f.departures.told))
}

// grantNext returns an error if there is no room for the header and statistics of the next file
// besides the statistics of the current one. A ring never ends for want of room: when more packets
// come, it removes its oldest file, which may be the current one.
func (f *File) grantNext() error {
	if f.rotation.Keep > 0 {
		return nil
	}
	bytes := int64(len(f.header)) + f.reserve()
	if f.rotation.MinFree > 0 {
		bytes += blockRoom
	}
	_, full := f.grant(bytes)
	return full
}

// allWritten returns the error of a series that has as many files as Rotation.Files allows.
func (f *File) allWritten() error {
	switch r := &f.rotation; {
	case r.Files == 1 && r.Size > 0:
		return errEnough("the file has its limit of %s", amount.Bytes(r.Size))
	case r.Files == 1:
		return errEnough("the limit of 1 file is reached")
	default:
		return errEnough("the limit of %d files is reached", r.Files)
	}
}
