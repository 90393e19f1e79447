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

// grant returns how many of these bytes may be written to the current file, and an error that says
// why not all.
func (f *File) grant(bytes int64) (int64, error) {
	r := &f.rotation
	reserve := int64(trailerRoom)
	if f.writer.options.Comments != nil {
		reserve += commentRoom
	}
	reserve *= int64(max(f.sources, len(f.present.stream.taken)) - len(f.departures.told))
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
