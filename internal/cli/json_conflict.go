package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/outfile"
)

// conflict refuses a file of --json that is also a file of the capture, because each would
// overwrite the other. It asks before any of them is opened. A later file of a series is refused
// by its number; one that a time of -G or a link makes the same is found when it begins, because
// the file of --json is locked as a capture file is.
func (f *jsonFlag) conflict(o *captureOptions) error {
	path := f.path()
	if path == "" {
		return nil
	}
	for _, name := range o.writes {
		if frame.IsStdout(name) || schemePattern.MatchString(name) {
			continue
		}
		first := o.rotate.tcpdumpName(name)(capture.Place{Period: time.Now()})
		for _, file := range []string{name, first, first + outfile.Partial} {
			if isSameFile(file, path) {
				return sameFile(name, path)
			}
		}
		if o.rotate.isLater(leadsTo(name), leadsTo(path)) {
			return sameFile(name, path)
		}
	}
	return nil
}

func sameFile(write, counts string) error {
	return fmt.Errorf("-w %s and --json=%s would write to the same file: choose another one for the counts", write, counts)
}

// isLater tells whether a path is one that a later file of a series of numbers may have, whose
// first file is called by write.
func (r *rotationOptions) isLater(write, path string) bool {
	dir, base := filepath.Split(write)
	pattern := ""
	switch {
	case len(r.begins) > 0:
		pattern = dumpcapPattern(base)
	case r.size.Bytes > 0:
		pattern = tcpdumpPattern(base, `\d+`)
	default:
		return false
	}
	in, name := filepath.Split(path)
	return in == dir && regexp.MustCompile("^"+r.unfinished(pattern)+"$").MatchString(name)
}

// isSameFile tells whether two paths lead to one file, also where it is yet to be made. A device
// takes what both write.
func isSameFile(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	if errA == nil && errB == nil {
		return os.SameFile(infoA, infoB) && infoA.Mode()&os.ModeDevice == 0
	}
	return os.IsNotExist(errA) && os.IsNotExist(errB) && leadsTo(a) == leadsTo(b)
}

// leadsTo is the path at which a file would be made: links may lead to files that are not there.
func leadsTo(path string) string {
	for range 40 { // as many links as Linux follows
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
