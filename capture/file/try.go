package file

import (
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/xdpcap/xdpcap/internal/outfile"
)

// triedNames is how many names of a series TrySeries checks for existing files.
const triedNames = 1000

// TrySeries checks whether the calling thread may create, rename and remove the files of a series,
// and overwrite the existing ones among the first 1,000 names. For that it creates a file in the
// directory of the first one and removes it; existing files stay as they are. A process that drops
// rights before it begins a later file calls this on a thread that has already dropped them.
func TrySeries(r Rotation, o Options) error {
	now := time.Now().Round(0)
	place := r.first(now)
	first := r.Path(place)
	if at, err := os.Stat(first); err == nil && !at.Mode().IsRegular() && r.isSingle() && !r.Atomic {
		return nil // a FIFO or a device was opened before, and there is no second file
	}
	if err := outfile.TryDirectory(filepath.Dir(first), o.trust()); err != nil {
		return err
	}
	r.Left = o.withoutOthers(r.Left)
	for _, path := range r.Left { // the ring will remove these later
		if err := outfile.TryFile(path, outfile.Options{Atomic: true}); err != nil {
			return err
		}
	}
	var others error // the error for the last name that another user's file has
	usable := false  // there is a name that no other user's file has
	for path := first; ; path = r.Path(place) {
		own := r.hasLeft(path)
		err := outfile.TryFile(path, outfile.Options{Atomic: r.Atomic, New: r.NoOverwrite && !own, Trust: o.trust()})
		if r.Atomic && err == nil { // a killed capture may have left a partial file
			err = outfile.TryFile(path+outfile.Partial, outfile.Options{Trust: o.trust()})
		}
		switch {
		case err == nil:
			usable = true
		case r.Keep > 0 && o.hasOthers(&r, path):
			others = err // the ring passes over it
		default:
			return err
		}
		place = r.next(place, now)
		if r.isSingle() || place.Number == triedNames || place.Number == r.Files || r.Path(place) == first {
			if usable {
				return nil
			}
			return others
		}
	}
}

// hasOthers reports whether the file at a path, or with Atomic its temporary file, is another
// user's.
func (o *Options) hasOthers(r *Rotation, path string) bool {
	return outfile.IsOthers(path, o.Owners) || r.Atomic && outfile.IsOthers(path+outfile.Partial, o.Owners)
}

// withoutOthers returns the paths without those of another user's files.
func (o *Options) withoutOthers(paths []string) []string {
	return slices.DeleteFunc(slices.Clone(paths), func(path string) bool { return outfile.IsOthers(path, o.Owners) })
}

func (o *Options) trust() outfile.Trust {
	return outfile.Trust{Owners: o.Owners, NoLinks: o.NoLinks}
}
