package capture

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/xdpcap/xdpcap/internal/outfile"
)

// triedNames is of how many files of a series TryFiles looks whether they are there.
const triedNames = 10_000

// TryFiles finds out whether the thread that calls it may make the files of a series, rename and
// remove them, and overwrite those that are there, of which it looks at the first 10,000. It does
// so with a file of its own in the directory of the first one, which it removes, and leaves the
// others as they are. A process that will have fewer rights when it begins a later file calls this
// on a thread with these rights.
func TryFiles(r Rotation, o WriterOptions) error {
	trust := o.trust()
	for _, path := range r.Left {
		if err := trust.TryFile(path, true); err != nil {
			return err
		}
	}
	now := time.Now().Round(0)
	place := r.first(now)
	first := r.Path(place)
	if err := outfile.TryDirectory(filepath.Dir(first)); err != nil {
		return err
	}
	for path := first; ; path = r.Path(place) {
		err := trust.TryFile(path, r.Atomic)
		if r.Atomic && err == nil {
			err = trust.TryFile(path+".partial", false) // of a capture that was killed
		}
		if err != nil {
			return err
		}
		place = r.next(place, now)
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) && r.Keep == 0 || r.isSingle() ||
			place.Number == triedNames || r.Path(place) == first {
			return nil
		}
	}
}

func (o *WriterOptions) trust() outfile.Trust {
	return outfile.Trust{Owners: o.Owners, NoLinks: o.NoLinks}
}
