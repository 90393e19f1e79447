package capture

import (
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/xdpcap/xdpcap/internal/outfile"
)

// triedNames is of how many files of a series TryFiles looks whether they are there.
const triedNames = 1000

// TryFiles finds out whether the thread that calls it may make the files of a series, rename and
// remove them, and overwrite those that are there, which it looks for at the first 1,000 names. It
// does so with a file of its own in the directory of the first one, which it removes, and leaves
// the others as they are. A process that will have fewer rights when it begins a later file calls
// this on a thread with these rights.
func TryFiles(r Rotation, o WriterOptions) error {
	now := time.Now().Round(0)
	place := r.first(now)
	first := r.Path(place)
	if at, err := os.Stat(first); err == nil && !at.Mode().IsRegular() && r.isSingle() && !r.Atomic {
		return nil // it is open from the start on, and has no other beside it
	}
	if err := outfile.TryDirectory(filepath.Dir(first)); err != nil {
		return err
	}
	for _, path := range r.Left { // they are removed
		if err := outfile.TryFile(path, outfile.Options{Atomic: true}); err != nil {
			return err
		}
	}
	for path := first; ; path = r.Path(place) {
		own := slices.Contains(r.Left, path)
		err := outfile.TryFile(path, outfile.Options{Atomic: r.Atomic, New: r.NoOverwrite && !own, Trust: o.trust()})
		if r.Atomic && err == nil { // a capture that was killed may have left it
			err = outfile.TryFile(path+".partial", outfile.Options{Trust: o.trust()})
		}
		if err != nil {
			return err
		}
		place = r.next(place, now)
		if r.isSingle() || place.Number == triedNames || place.Number == r.Files || r.Path(place) == first {
			return nil
		}
	}
}

func (o *WriterOptions) trust() outfile.Trust {
	return outfile.Trust{Owners: o.Owners, NoLinks: o.NoLinks}
}
