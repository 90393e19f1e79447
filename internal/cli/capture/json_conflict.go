package capture

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/cli/outputs"
	"github.com/xdpcap/xdpcap/internal/outfile"
)

// conflict refuses a file of --json that is also a file of the capture, because each would
// overwrite the other. It runs before any of them is opened. It finds a later file of a series by
// its number. It cannot find one that becomes the same by the time of -G or by a link. That is
// found when the file begins, because the file of --json is locked like a capture file.
func (f *jsonFlag) conflict(o *Options) error {
	path := f.path()
	if path == "" {
		return nil
	}
	for _, name := range o.Writes {
		if frame.IsStdout(name) || outputs.IsURL(name) {
			continue
		}
		first := o.Rotate.FirstName(name)
		for _, file := range []string{name, first, first + outfile.Partial} {
			if isSameFile(file, path) {
				return sameFile(name, path)
			}
		}
		if o.Rotate.IsLater(leadsTo(name), leadsTo(path)) {
			return sameFile(name, path)
		}
	}
	return nil
}

func sameFile(write, counts string) error {
	return fmt.Errorf("-w %s and --json=%s would write to the same file: choose another one for the counts", write, counts)
}

// isSameFile says whether two paths lead to the same file, even if it does not exist yet. It is
// false for a device, which can take what both write.
func isSameFile(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	if errA == nil && errB == nil {
		return os.SameFile(infoA, infoB) && infoA.Mode()&os.ModeDevice == 0
	}
	return os.IsNotExist(errA) && os.IsNotExist(errB) && leadsTo(a) == leadsTo(b)
}

// leadsTo is the path at which a file would be created: a link may lead to a file that does not
// exist.
func leadsTo(path string) string {
	for range 40 { // Linux follows as many links
		to, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = to
	}
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(dir, filepath.Base(path))
	}
	return path
}
