package outputs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/xdpcap/xdpcap/capture/file"
)

// Recordings are the limits of the flags about several files for a recorder, which makes a file for
// each trigger. given reports whether a flag was set.
func (o *Options) Recordings(given func(flag string) bool) (limits file.Rotation, err error) {
	if flag := givenRotation(func(flag string) bool { return given(flag) && !limitsRecordings[flag] }); flag != "" {
		return limits, fmt.Errorf("%s and --ring: each trigger makes a file: choose one", flag)
	}
	if err := o.Rotate.checkFileCount(given); err != nil {
		return limits, err
	}
	var stop file.Rotation
	if err := o.autostop(&stop); err != nil {
		return limits, err
	}
	if stop.Files > 0 || stop.Size > 0 {
		return limits, errors.New("-a files, -a filesize and --ring: each trigger makes a file: choose one")
	}
	return file.Rotation{Keep: int(o.Rotate.files), MaxBytes: o.Rotate.maxBytes.Bytes, MinFree: o.Rotate.minFree.Bytes}, nil
}

// splitRecording divides a path. The number of a recording is inserted between stem and suffix.
func splitRecording(path string) (dir, stem, suffix string) {
	dir, name := filepath.Split(path)
	if i := strings.IndexByte(name[1:], '.'); i >= 0 {
		return dir, name[:i+1], name[i+1:]
	}
	return dir, name, ""
}

// FileNames returns a function that returns the next name: FILE-1, FILE-2 and so on, with numbers
// above last. It skips names of files that exist.
func FileNames(path string, last int) func() string {
	dir, stem, suffix := splitRecording(path)
	return func() string {
		for {
			last++
			next := fmt.Sprintf("%s%s-%d%s", dir, stem, last, suffix)
			if _, err := os.Lstat(next); errors.Is(err, os.ErrNotExist) {
				return next
			}
		}
	}
}

// RecordingNames is the name of a recorder's files in messages: N stands for a number.
func RecordingNames(path string) string {
	dir, stem, suffix := splitRecording(path)
	return dir + stem + "-N" + suffix
}

// EarlierRecordings returns the files of earlier recorders, the oldest first, and their largest
// number. The error has the same meaning as that of Adopt.
func EarlierRecordings(path string) (paths []string, largest int, err error) {
	dir, stem, suffix := splitRecording(path)
	left, err := leftFiles(dir, regexp.QuoteMeta(stem)+`-(\d+)`+regexp.QuoteMeta(suffix))
	for _, f := range left {
		largest = max(largest, f.number)
	}
	return pathsOf(left), largest, err
}

// limitsRecordings are the flags about several files that also apply to a recorder.
var limitsRecordings = map[string]bool{"file-count": true, "max-bytes": true, "min-free": true}
